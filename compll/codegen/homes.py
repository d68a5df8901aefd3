"""Where values live: in the function's own buffers where they can, in temporaries otherwise.

A value that goes out is computed into its buffer; where that cannot be (it lives elsewhere already, or its section is
packed and its sink is no elementwise one), a copy is added at the end. A scatter works in place: its base and its
result share a buffer. The values that a loop carries from round to round share one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from compll.codegen import ir
from compll.codegen.layout import PayloadLayout, Section
from compll.codegen.plan import Buffer, BufferRole, DecodeAscending, EncodeAscending, LoadCount, StoreCount
from compll.codegen.steps import Block, LoopSteps, Names, Step, all_steps, copying, copying_all, read, reads, written
from compll.dtypes import U32, DType

_PORT_ORDER: tuple[ir.Role, ...] = ("residual", "state", "out", "field", "count", "finite", "cut")
"""Who gets a value's memory first where several ports want it: what is updated in place."""


_BUFFER_ROLES: dict[ir.Role, BufferRole] = {
    "gradient": "gradient", "residual": "residual", "state": "state", "out": "out", "field": "section",
    "previous": "previous", "finite": "report", "cut": "report",
}  # fmt: skip


@dataclass(kw_only=True)
class Homes:
    """The buffers of one function, and for each value the name of the one that it lives in."""

    function: ir.Function
    layout: PayloadLayout
    gradient: ir.GradientView
    gradient_dtype: DType
    names: Names
    reserved: frozenset[str]  # names of the record's other fields
    buffers: dict[str, Buffer] = field(default_factory=dict)
    of: dict[str, str] = field(default_factory=dict)

    def settle(self, block: Block) -> Block:
        """Give every value of the block a home; the block with the copies and transfers that this needs."""
        block = [*self._arrivals(block), *block]
        departures = self._departures(block)
        block = self._carried(self._scatters([*block, *departures]))
        for step in all_steps(block):
            for value in written(step):
                self.temporary(value)
        return block

    def at_start(self) -> dict[str, ir.Value]:
        """The value that each buffer holds when the function begins."""
        inputs = [port.value for port in self.function.inputs]
        return {self.of[value.name]: value for value in inputs if value.name in self.of}

    # --- inputs ------------------------------------------------------------------------------------------------------

    def _arrivals(self, block: Block) -> Block:
        """Bind the inputs; the transfers that bring counts and indices from the payload, if they are read."""
        used = {value.name for step in all_steps(block) for value in read(step)}
        used.update(port.value.name for port in self.function.outputs)
        counts = {port.name: port.value for port in self.function.inputs if port.role == "count"}
        arrivals: Block = []
        for port in self.function.inputs:
            section = self._section(port.name) if port.role == "field" else None
            if port.role == "count" and port.value.name in used:
                arrivals.append(self._load_count(port))
            elif section is not None and section.coding == "ascending":
                count = _count(port.value)
                used_here = port.value.name in used
                arrivals += [DecodeAscending(result=port.value, section=section, count=count)] if used_here else []
            elif port.role != "count":
                self._home(port.value, self._port_buffer(port))
        return sorted(arrivals, key=lambda step: not isinstance(step, LoadCount)) if counts else arrivals

    def _load_count(self, port: ir.Port) -> LoadCount:
        section = self._section(port.name)
        assert section.count_offset is not None
        return LoadCount(result=port.value, offset=section.count_offset, limit=section.shape[-1])

    # --- outputs -----------------------------------------------------------------------------------------------------

    def _departures(self, block: Block) -> Block:
        """Home the outputs; what has to be done at the end for those that do not get their own memory."""
        departures: Block = []
        ports = sorted(self.function.outputs, key=lambda port: _PORT_ORDER.index(port.role))
        cuts = [port for port in ports if port.role == "cut"]
        for port in ports if len(cuts) < 2 else [p for p in ports if p.role != "cut"]:
            departures += self._depart(port, block)
        return [*departures, *self._summed(cuts)]

    def _depart(self, port: ir.Port, block: Block) -> Block:
        value = port.value
        if port.role == "count":
            offset = self._section(port.name).count_offset
            assert offset is not None
            return [StoreCount(source=value, offset=offset)]
        section = self._section(port.name) if port.role == "field" else None
        if section is not None and section.coding == "ascending":
            return [EncodeAscending(source=value, section=section, count=_count(value))]
        buffer = self._port_buffer(port)
        if self.of.get(value.name) == buffer.name:
            return []
        fits = self._fits(value, buffer, block) and _may_write_into(_producer(block, value), value, section)
        if value.name not in self.of and fits:
            self._home(value, buffer)
            return []
        copy = self.names.like(value, f"{port.name}_out")
        self._home(copy, buffer)
        return [copying(value, copy)]

    def _fits(self, value: ir.Value, buffer: Buffer, block: Block) -> bool:
        """Whether nobody misses what a padded view has beyond its memory. Only sweeps know where that ends; zeros is
        what they read there, as is right of the residual's new value, but not of every result."""
        if self.gradient.kind != "blocks" or buffer.role not in ("residual", "out"):
            return True
        users = [step for step in all_steps(block) if reads(step, value.name)]
        return not (users and buffer.role == "out") and all(
            isinstance(step, ir.Sweep) for step in (_producer(block, value), *users)
        )

    def _summed(self, cuts: list[ir.Port]) -> Block:
        """One report for the matches that several filters left out."""
        if len(cuts) < 2:
            return []
        total = ir.Value(name=self.names.fresh("cut"), dtype=U32)
        self._home(total, Buffer(name="cut", role="report", dtype=U32, shape=()))
        body = [ir.Statement(name=c.value.name, dtype=U32, opcode="load", source=c.value) for c in cuts]
        for number, cut in enumerate(cuts[1:]):
            args = (body[-1].name if number else body[0].name, cut.value.name)
            body.append(ir.Statement(name=f"sum_{number}", dtype=U32, opcode="add", args=args))
        return [ir.Sweep(shape=(), body=tuple(body), sinks=(ir.Write(result=total, value=body[-1].name),))]

    # --- values that share memory ------------------------------------------------------------------------------------

    def _scatters(self, block: Block) -> Block:
        """Home the bases of scatters with their results, last scatters first; bases that live elsewhere are copied."""
        result: Block = []
        for position in reversed(range(len(block))):
            step = block[position]
            copies: Block = []
            if isinstance(step, ir.Sweep):
                sinks = tuple(self._in_place(sink, block[:position], copies) for sink in step.sinks)
                step = replace(step, sinks=sinks)
            result = [*copies, step, *result]
        return result

    def _in_place(self, sink: ir.Sink, before: Block, copies: Block) -> ir.Sink:
        if not isinstance(sink, ir.Put) or sink.base is None:
            return sink
        base = sink.base
        home = self.temporary(sink.result)
        if self.of.get(base.name) == home:
            return sink
        if base.name not in self.of and _may_write_into(_producer(before, base), base, None):
            self.of[base.name] = home
            return sink
        copy = self.names.like(base, f"{base.name}_copy")
        self.of[copy.name] = home
        copies.append(copying(base, copy))
        return replace(sink, base=copy)

    def _carried(self, block: Block) -> Block:
        """Home what loops carry; the copies that bring initial and yielded values there."""
        result: Block = []
        for step in block:
            if isinstance(step, LoopSteps):
                result += self._initial(step)
                step = LoopSteps(step.loop, self._scatters(self._carried(step.head)), self._yielding(step))
            result.append(step)
        return result

    def _initial(self, step: LoopSteps) -> Block:
        pairs = []
        for carried in step.loop.carried:
            home = self.temporary(carried.result)
            self.of[carried.parameter.name] = home
            start = self.names.like(carried.initial, f"{carried.parameter.name}_start")
            self.of[start.name] = home
            pairs.append((carried.initial, start))
        return _copies(pairs)

    def _yielding(self, step: LoopSteps) -> Block:
        """The loop's body, with yielded values in the memory of what they become, by a copy at the end if need be."""
        pairs = []
        for carried in step.loop.carried:
            value, home = carried.yielded, self.of[carried.parameter.name]
            if value.name not in self.of and _may_write_into(_producer(step.body, value), value, None):
                self.of[value.name] = home
            elif value.name != carried.parameter.name:
                following = self.names.like(value, f"{carried.parameter.name}_next")
                self.of[following.name] = home
                pairs.append((value, following))
        return self._carried(self._scatters([*step.body, *_copies(pairs)]))

    # --- buffers -----------------------------------------------------------------------------------------------------

    def _home(self, value: ir.Value, buffer: Buffer) -> None:
        self.buffers.setdefault(buffer.name, buffer)
        self.of[value.name] = buffer.name

    def temporary(self, value: ir.Value) -> str:
        """The home of a value, a temporary of its own if it had none."""
        if value.name not in self.of:
            name = value.name
            while name in self.buffers or name in self.reserved:
                name += "_"
            self._home(value, Buffer(name=name, role="temporary", dtype=value.dtype, shape=value.shape))
        return self.of[value.name]

    def _section(self, name: str) -> Section:
        return self.layout.section(name)

    def _port_buffer(self, port: ir.Port) -> Buffer:
        value = port.value
        names = {"field": f"payload_{port.name}", "previous": f"previous_{port.name}", "state": f"state_{port.name}"}
        dtype = self.gradient_dtype if port.role == "gradient" else value.dtype
        section = self._section(port.name) if port.role in ("field", "previous") else None
        name, role = names.get(port.role, port.role), _BUFFER_ROLES[port.role]
        return Buffer(name=name, role=role, dtype=dtype, shape=value.shape, section=section)


def _producer(block: Block, value: ir.Value) -> Step | None:
    return next((step for step in block if any(v.name == value.name for v in written(step))), None)


def _may_write_into(producer: Step | None, value: ir.Value, section: Section | None) -> bool:
    """Whether the step that makes a value can make it in memory that is not its own."""
    if producer is None or isinstance(producer, LoopSteps):
        return False
    if section is None or section.coding != "packed":
        return True
    if not isinstance(producer, ir.Sweep):
        return False
    by_rows = any(getattr(sink, "per_row", False) for sink in producer.sinks)
    return not by_rows and any(isinstance(sink, ir.Write) and sink.result == value for sink in producer.sinks)


def _count(value: ir.Value) -> ir.Value | None:
    return None if value.count is None else ir.Value(name=value.count, dtype=U32)


def _copies(pairs: Iterable[tuple[ir.Value, ir.Value]]) -> Block:
    """One sweep for all pairs over one space."""
    spaces: dict[object, list[tuple[ir.Value, ir.Value]]] = {}
    for source, result in pairs:
        spaces.setdefault((source.shape, source.count), []).append((source, result))
    return [copying_all(members) for members in spaces.values()]
