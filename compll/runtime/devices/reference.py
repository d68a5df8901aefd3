"""The reference device: the interpreter on the unoptimised program. Slow, always there, right by definition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from compll.codegen import ir
from compll.codegen.convert import cast, storage, to_bits
from compll.codegen.driver import Compilation
from compll.codegen.interpret import PortName, from_view, rounds, size_environment, to_view
from compll.codegen.packing import pack, unpack
from compll.codegen.rounds import exchanged
from compll.diagnostics import InternalError
from compll.dtypes import BF16, F16, DType
from compll.runtime.devices.base import LoadedFunction, LoadedMerge, Segment
from compll.runtime.devices.turns import TurnByTurn
from compll.sizes import extent

Array = NDArray[Any]
Environment = Mapping[str, float]

_NARROW = {torch.float16: F16, torch.bfloat16: BF16}


@dataclass(frozen=True)
class ReferenceFunction:
    """One function, interpreted segment by segment."""

    compilation: Compilation
    function: ir.Function

    def __call__(self, segments: Sequence[Segment], threads: int | None = None) -> None:
        """Run on every segment; `threads` has no meaning here."""
        for segment in segments:
            for _ in self._rounds(segment):
                pass  # alone, the mean over all ranks is the own value

    @property
    def exchanged(self) -> Sequence[ir.Value]:
        return exchanged(self.function.operations)

    def rounds(self, segments: Sequence[Segment], threads: int | None = None) -> Iterator[list[torch.Tensor]]:
        """As `LoadedFunction.rounds` says."""
        running = [self._rounds(segment) for segment in segments]
        while arrays := [array for steps in running for array in islice(steps, 1)]:
            yield [torch.from_numpy(array.reshape(-1)) for array in arrays]

    def _rounds(self, segment: Segment) -> Iterator[Array]:
        program = self.compilation.program
        environment = size_environment(program, segment.environment)
        parameters: dict[str, ir.Scalar] = {p.name: environment[p.name] for p in program.parameters}
        inputs = self._inputs(segment, environment)
        results = yield from rounds(self.function, inputs, environment, parameters, segment.key)
        cuts = [array for (role, _), array in results.items() if role == "cut"]
        if cuts:
            _write(segment.arrays["cut"], np.sum(cuts, dtype=np.uint32))
        for (role, name), array in results.items():
            if role not in ("field", "count", "cut"):
                target = segment.arrays[_array_name(role, name)]
                dense = role in ("residual", "out")
                _write(target, from_view(array, environment) if dense else array)
        if any(role == "field" for role, _ in results):
            self._pack(segment, environment, results)

    def _inputs(self, segment: Segment, environment: Environment) -> dict[PortName, Array]:
        fields: dict[str, Array] = {}
        counts: dict[str, int] = {}
        for role, payload in (("field", "payload"), ("previous", "previous")):
            if any(port.role == role for port in self.function.inputs):
                fields, counts = unpack(self.compilation.layout, environment, segment.arrays[payload].numpy())
        return {(p.role, p.name): self._input(p, segment, environment, fields, counts) for p in self.function.inputs}

    def _input(
        self, port: ir.Port, segment: Segment, environment: Environment, fields: Mapping[str, Array],
        counts: Mapping[str, int],
    ) -> Array:  # fmt: skip
        match port.role:
            case "field" | "previous":
                return fields[port.name]
            case "count":
                return np.array(counts[port.name], np.uint32)
            case "gradient" | "residual" | "out":
                flat = _read(segment.arrays[port.role], port.value.dtype)
                return to_view(self.compilation.program.gradient, flat, environment)
            case "state":
                shape = tuple(extent(size, environment) for size in port.value.shape)
                return _read(segment.arrays[f"state_{port.name}"], port.value.dtype).reshape(shape)
        raise InternalError(f"function `{self.function.name}`: `{port.role}` is no input")

    def _pack(self, segment: Segment, environment: Environment, results: Mapping[PortName, Array]) -> None:
        fields = {name: array for (role, name), array in results.items() if role == "field"}
        counts = {name: int(array) for (role, name), array in results.items() if role == "count"}
        payload = pack(self.compilation.layout, environment, fields, counts)
        segment.arrays["payload"].copy_(torch.from_numpy(payload))


def _array_name(role: str, name: str) -> str:
    return f"state_{name}" if role == "state" else role


def _read(tensor: torch.Tensor, dtype: DType) -> Array:
    """A tensor's elements in the type that computes."""
    wide = tensor.float() if tensor.is_floating_point() else tensor
    held: Array = wide.detach().reshape(-1).numpy().astype(storage(dtype))
    return held


def _write(tensor: torch.Tensor, array: Array) -> None:
    """Store elements; floats are rounded as casts do, and what fits no narrow type was never made."""
    target = tensor.view(-1)
    narrow = _NARROW.get(tensor.dtype)
    if narrow is not None:  # torch knows several NaNs
        words = to_bits(cast(array.reshape(-1), narrow), narrow).astype(np.uint16).view(np.int16)
        target.view(torch.int16).copy_(torch.from_numpy(words))
        return
    flat = torch.from_numpy(np.ascontiguousarray(array.reshape(-1)))
    if flat.dtype == torch.uint32 and tensor.dtype != torch.uint32:
        flat = flat.to(torch.int64)
    target.copy_(flat)


class ReferenceDevice:
    """Interprets programs; `name` is reference."""

    @property
    def name(self) -> str:
        return "reference"

    def load(self, compilation: Compilation, function: str) -> LoadedFunction:
        return ReferenceFunction(compilation, compilation.program.function(function))

    def load_merge(self, compilation: Compilation) -> LoadedMerge:
        return TurnByTurn(self.load(compilation, "decode"), self.load(compilation, "decode_add"))
