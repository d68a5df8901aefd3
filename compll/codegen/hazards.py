"""Values that share memory: nobody may read an old one after a new one has been written over it.

Reading the old value where the new one is being written is fine at a sweep's own position, and for a scatter at the
index it writes (the two are one element of one array). Whatever else would read too late reads a copy instead, taken
just before the write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compll.codegen import ir
from compll.codegen.rewrite import rename
from compll.codegen.steps import Block, LoopSteps, Names, Step, copying, reads, renamed, written
from compll.diagnostics import InternalError


@dataclass
class Hazards:
    """`homes` gives the buffer of each value that does not have one of its own, by names."""

    homes: dict[str, str]
    names: Names

    def resolve(self, block: Block, before: Mapping[str, ir.Value]) -> Block:
        """The block with the copies it needs; `before` are the values that buffers hold at its start."""
        holds = dict(before)
        result: Block = []
        pending = [self._inside(step) for step in block]
        while pending:
            step = pending.pop(0)
            for value in written(step):
                home = self.homes.get(value.name)
                old = holds.get(home) if home is not None else None
                if home is not None:
                    holds[home] = value
                if old is not None and old.name != value.name:
                    step = self._save(old, value, step, pending, result)
            result.append(step)
        return result

    def _inside(self, step: Step) -> Step:
        if not isinstance(step, LoopSteps):
            return step
        carried = {self.homes[c.parameter.name]: c.parameter for c in step.loop.carried}
        return LoopSteps(step.loop, self.resolve(step.head, {}), self.resolve(step.body, carried))

    def _save(self, old: ir.Value, new: ir.Value, step: Step, later: Block, result: Block) -> Step:
        """Append a copy of `old` to `result` if somebody needs it; the step, reading the copy where it has to."""
        here = _reads_elsewhere(step, old, new)
        if not here and not any(reads(other, old.name) for other in later):
            return step
        copy = self.names.like(old, f"old_{old.name}")
        result.append(copying(old, copy))
        names = {old.name: copy.name}
        later[:] = [renamed(other, names) for other in later]
        return _reading_copy(step, old, names) if here else step


def _reads_elsewhere(step: Step, old: ir.Value, new: ir.Value) -> bool:
    """Whether a step that writes `new` reads `old`, whose memory it is, at other places than it writes."""
    if not isinstance(step, ir.Sweep):
        return reads(step, old.name)
    sink = next(s for s in step.sinks if new in ir.sink_results(s))
    loads = [s for s in step.body if s.source is not None and s.source.name == old.name]
    match sink:
        case ir.Write():
            return any(s.opcode == "load_at" or old.shape != step.shape for s in loads)
        case ir.Put(base=base, index=index) if base is not None and base.name == old.name:
            return any(s.opcode == "load" or s.args != (index,) for s in loads)
    return reads(step, old.name)


def _reading_copy(step: Step, old: ir.Value, names: Mapping[str, str]) -> Step:
    if not isinstance(step, ir.Sweep):
        return renamed(step, names)
    if step.count == old.name:
        raise InternalError(f"`{old.name}` counts the space of a sweep that overwrites it")
    return replace(step, body=rename(step.body, names))
