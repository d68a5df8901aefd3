"""What a plan moves through memory: passes over the gradient, bytes per element, and the least that is possible.

A model, not a measurement: every kernel reads each distinct array that it loads at its own position once and writes
each result once; what it reads at an index costs one element a position, and no more than the array. Kernels of a loop
count once for each round that it may take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from compll.codegen import ir, uses
from compll.codegen.plan import (
    Buffer,
    DecodeAscending,
    EncodeAscending,
    Kernel,
    KernelPlan,
    LoadCount,
    Repeat,
    StoreCount,
)
from compll.sizes import Size, extent, product

_BITS = 8.0
_COUNT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """`passes`: kernels that walk an array as long as the gradient. `bytes_per_element`: memory moved, by the number of
    gradient elements. `floor_bytes_per_element`: every input read once, every output written once, and the payload
    moved once (or what is moved, where a scatter leaves most of an array alone)."""

    passes: int
    bytes_per_element: float
    floor_bytes_per_element: float
    kernels: tuple[tuple[str, str, str], ...]  # function, pattern, name


@dataclass(frozen=True, slots=True)
class _Moved:
    """Bytes of one kernel, and whether it walks a full-length array."""

    nbytes: float
    full: bool


def traffic(plan: KernelPlan, environment: Mapping[str, float]) -> Traffic:
    """The traffic of one function for given sizes; `environment` has the named sizes, too (`size_environment`)."""
    model = _Model(plan, environment)
    moved = [m for kernel in plan.kernels for m in model.kernel(kernel)]
    nbytes = sum(m.nbytes for m in moved)
    return Traffic(
        passes=sum(m.full for m in moved),
        bytes_per_element=nbytes / model.numel,
        floor_bytes_per_element=min(model.floor(), nbytes) / model.numel,
        kernels=tuple(_listed(plan.function, plan.kernels)),
    )


def _listed(function: str, kernels: tuple[Kernel, ...]) -> Iterator[tuple[str, str, str]]:
    for kernel in kernels:
        yield function, kernel.pattern, kernel.name
        if isinstance(kernel.step, Repeat):
            yield from _listed(function, (*kernel.step.head, *kernel.step.body))


@dataclass(frozen=True)
class _Model:
    plan: KernelPlan
    environment: Mapping[str, float]

    @property
    def numel(self) -> int:
        return max(1, int(self.environment["numel"]))

    def kernel(self, kernel: Kernel) -> Iterator[_Moved]:
        match kernel.step:
            case Repeat(limit=limit, head=head, body=body):
                inside = [m for inner in (*head, *body) for m in self.kernel(inner)]
                yield from inside * limit
            case ir.Sweep() as sweep:
                yield self._sweep(sweep)
            case EncodeAscending(source=value, section=section) | DecodeAscending(result=value, section=section):
                yield _Moved(self._bytes(value) + self._extent(section.nbytes), self._is_full(value))
            case StoreCount() | LoadCount():
                yield _Moved(2 * _COUNT_BYTES, False)
            case ir.Loop():
                raise AssertionError("a plan has `Repeat` for loops")
            case step:
                values = (*uses.reads(step), *ir.results(step))
                yield _Moved(sum(map(self._bytes, values)), any(map(self._is_full, values)))

    def _sweep(self, sweep: ir.Sweep) -> _Moved:
        positions = self._extent(product(sweep.shape))
        sources = [(statement.opcode, statement.source) for statement in sweep.body if statement.source is not None]
        loads = [(opcode, self.plan.buffer_of(source).name, source) for opcode, source in sources]
        walked = {name: source for opcode, name, source in loads if opcode == "load"}
        picked = {name: source for opcode, name, source in loads if opcode == "load_at" and name not in walked}
        times = Counter(name for opcode, name, _ in loads if opcode == "load_at")
        stored, scattered = self._results(sweep)
        touched = sum(positions * self._width(value) for value in scattered)
        for name, value in picked.items():
            if times[name] * positions >= self._elements(value):
                walked[name] = value
            else:
                touched += times[name] * positions * self._width(value)
        arrays = [*walked.values(), *stored]
        full = any(map(self._is_full, arrays)) or self._spans(sweep.shape)
        return _Moved(touched + sum(map(self._bytes, arrays)), full)

    def _results(self, sweep: ir.Sweep) -> tuple[list[ir.Value], list[ir.Value]]:
        """What a sweep stores whole (the zeros under a scatter without a base, too), and what it scatters into."""
        stored: list[ir.Value] = []
        scattered: list[ir.Value] = []
        for sink in sweep.sinks:
            if isinstance(sink, ir.Put):
                scattered.append(sink.result)
            if not isinstance(sink, ir.Put) or sink.base is None:
                stored += ir.sink_results(sink)
        return stored, scattered

    def floor(self) -> float:
        """Bytes that the function cannot avoid moving."""
        inputs = {"gradient": 1, "residual": 2, "state": 2, "out": 2 if self.plan.function == "decode_add" else 1}
        own = sum(inputs.get(b.role, 0) * self._buffer_bytes(b) for b in self.plan.buffers if b.section is None)
        payloads = 2 if any(b.role == "previous" for b in self.plan.buffers) else 1
        return own + payloads * self._extent(self.plan.layout.nbytes)

    def _elements(self, value: ir.Value) -> int:
        return self._extent(product(value.shape))

    def _spans(self, shape: tuple[Size, ...]) -> bool:
        return self._extent(product(shape)) >= self.numel

    def _is_full(self, value: ir.Value) -> bool:
        return bool(value.shape) and self._spans(value.shape)

    def _width(self, value: ir.Value) -> float:
        return self.plan.buffer_of(value).dtype.bits / _BITS

    def _bytes(self, value: ir.Value) -> float:
        return self._buffer_bytes(self.plan.buffer_of(value))

    def _buffer_bytes(self, buffer: Buffer) -> float:
        elements = self._extent(product(buffer.shape))
        in_memory = min(elements, self.numel) if buffer.role in ("gradient", "residual", "out") else elements
        bits = max(8, buffer.dtype.bits) if buffer.section is None else buffer.dtype.bits
        return in_memory * bits / _BITS

    def _extent(self, size: Size) -> int:
        return extent(size, self.environment)
