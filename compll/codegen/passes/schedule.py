"""Which sweeps remain, and in which order: roots get stages, definitions that must be in memory a sweep to write them.

1. A root's stage is one more than the latest stage of the results that it reads, once definitions are computed in
   place. Roots over one space at one stage share a sweep.
2. A sweep all of whose roots can wait joins a later sweep over the same space: one pass over memory less.
3. A definition that somebody needs in memory (an output, the base of a scatter, an operand) is written by the latest
   sweep over its space that may do so, best by one that computes it anyway; sweeps after that load it.
4. A definition that several sweeps would compute at a higher cost than a store and loads is kept in memory, too.

*Hazards.* An output that lives in the memory of an input (a state) must not be written before others have read the
input. Placement and order within a stage avoid that where they can; where they cannot, `kernels.py` keeps a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from compll.codegen import ir
from compll.codegen.passes.definition import Definition, Shape, Use
from compll.codegen.passes.graph import Graph, Reached, Root
from compll.codegen.passes.group import Group, Mode, mode_of

SAVED_READS = 3
"""A definition is kept in memory if that saves at least so many reads of whole arrays in all later sweeps together."""


@dataclass(kw_only=True)
class Scheduler:
    """The groups of one list of operations.

    `kept` names the values that are needed after it; `replaces` gives, for a value that shares memory with an earlier
    one, that one; `packed` names the values whose bits are packed on the wire (written by flat sweeps only).
    """

    graph: Graph
    kept: Iterable[str]
    replaces: Mapping[str, str]
    packed: frozenset[str]
    groups: list[Group] = field(default_factory=list)
    placed: dict[str, int] = field(default_factory=dict)  # definition in memory -> stage
    _stage: dict[str, int] = field(default_factory=dict)  # result of a root -> stage
    _ready: dict[str, int] = field(default_factory=dict)
    _leaves: dict[Root | str, tuple[Use, ...]] = field(default_factory=dict)

    def run(self) -> list[Group]:
        """The groups in order of execution."""
        for root in self.graph.roots:
            self._enter(root)
        self._delay()
        for definition in self._needed_in_memory():
            self._place(definition)
        self._keep_what_is_dear()
        return self._ordered()

    def inlines(self, use: Use, group: Group) -> bool:
        """Whether a sink of the group computes the value itself."""
        there = self.placed.get(use.value.name)
        return self.graph.may_inline(use, group.shape) and not (there is not None and there < group.stage)

    def reached(self, group: Group) -> Reached:
        """What a group reads and computes."""
        uses = [use for root in group.roots for use in self.graph.root_uses(root)]
        uses += [use for definition in group.written for use in self._all_uses(definition)]
        return self.graph.reach(uses, lambda use: self.inlines(use, group))

    def _all_uses(self, definition: Definition) -> Iterator[Use]:
        yield Use(definition.result, "own")
        yield from definition.uses("own")

    # --- stages ------------------------------------------------------------------------------------------------------

    def _enter(self, root: Root) -> None:
        stage = 1 + max((self._available(use) for use in self._root_leaves(root)), default=0)
        group = Group(stage=stage, shape=root.shape, count=root.count, mode=mode_of(root.sink), roots=[root])
        self._stage.update({value.name: stage for value in root.results})
        partners = (g for g in self.groups if g.stage == stage and g.takes(root.shape, root.count, group.mode))
        partner = next(partners, None) if root.sink is not None else None
        if partner is None:
            self.groups.append(group)
        else:
            partner.join(group)

    def _root_leaves(self, root: Root) -> tuple[Use, ...]:
        return self._follow(root, self.graph.root_uses(root), root.shape)

    def _definition_leaves(self, definition: Definition) -> tuple[Use, ...]:
        return self._follow(definition.result.name, definition.uses("own"), definition.shape)

    def _follow(self, key: Root | str, uses: Iterable[Use], shape: Shape) -> tuple[Use, ...]:
        if key not in self._leaves:
            self._leaves[key] = self.graph.reach(uses, lambda use: self.graph.may_inline(use, shape)).leaves
        return self._leaves[key]

    def _available(self, use: Use) -> int:
        """The stage after which a value is in memory."""
        name = use.value.name
        if name in self.graph.definitions:
            return self._ready_stage(self.graph.definitions[name]) + 1
        return self._stage.get(name, 0)

    def _ready_stage(self, definition: Definition) -> int:
        """The stage after which everything that a definition reads is in memory."""
        name = definition.result.name
        if name not in self._ready:
            leaves = self._definition_leaves(definition)
            self._ready[name] = max((self._available(use) for use in leaves), default=0)
        return self._ready[name]

    # --- waiting -----------------------------------------------------------------------------------------------------

    def _delay(self) -> None:
        for group in sorted(self.groups, key=lambda g: -g.stage):
            later = (
                other
                for other in sorted(self.groups, key=lambda g: g.stage)
                if other.stage > group.stage and other.takes(group.shape, group.count, group.mode)
            )
            target = next(later, None) if group.is_sweep else None
            if target is not None and target.stage <= min(self._latest(root.results) for root in group.roots):
                target.join(group)
                self.groups.remove(group)
                self._stage.update({v.name: target.stage for root in group.roots for v in root.results})
                self._ready.clear()

    def _latest(self, values: Iterable[ir.Value]) -> float:
        """The last stage at which values may appear without delaying a reader."""
        names = {value.name for value in values}
        latest = float("inf")
        for group in self.groups:
            for root in group.roots:
                if any(use.value.name in names for use in self._root_leaves(root)):
                    latest = min(latest, group.stage - 1)
        for definition in self._needed_in_memory():
            if any(use.value.name in names for use in self._definition_leaves(definition)):
                latest = min(latest, self._latest([definition.result]) - 1)
        return latest

    # --- what goes to memory -----------------------------------------------------------------------------------------

    def _needed_in_memory(self) -> list[Definition]:
        """The definitions that are kept or that somebody cannot compute in place; those ready last come first."""
        definitions = self.graph.definitions
        needed = {name: None for name in self.kept if name in definitions}
        for root in self.graph.roots:
            needed.update({u.value.name: None for u in self._root_leaves(root) if u.value.name in definitions})
        pending = list(needed)
        while pending:
            leaves = self._definition_leaves(definitions[pending.pop()])
            fresh = [u.value.name for u in leaves if u.value.name in definitions and u.value.name not in needed]
            needed.update({name: None for name in fresh})
            pending += fresh
        return sorted((definitions[name] for name in needed), key=lambda d: (-self._ready_stage(d), d.order))

    def _place(self, definition: Definition) -> None:
        """Choose the sweep that writes a definition."""
        name = definition.result.name
        earliest = self._ready_stage(definition) + 1
        latest = min(self._latest([definition.result]), self._before_written_readers(name))
        mode = self._write_mode(definition)
        candidates = [
            group
            for group in self.groups
            if earliest <= group.stage <= latest and group.takes(definition.shape, definition.count, mode)
        ]
        new = Group(stage=self._own_stage(definition, earliest, latest), shape=definition.shape, count=definition.count)
        best = min((*candidates, new), key=lambda group: self._rank(definition, group, new))
        if best is new:
            self.groups.append(new)
        best.written.append(definition)
        best.mode = mode if best.mode == "any" else best.mode
        self.placed[name] = best.stage

    def _before_written_readers(self, name: str) -> float:
        """The last stage before those definitions, already placed, that load this one."""
        readers = [
            group.stage - 1
            for group in self.groups
            for definition in group.written
            if any(use.value.name == name for use in self._definition_leaves(definition))
        ]
        return min(readers, default=float("inf"))

    def _rank(self, definition: Definition, group: Group, new: Group) -> tuple[int, bool, bool, int, int]:
        """Smaller is better: hazards, another sweep, computing it only for that, whole arrays read, an early sweep."""
        name = definition.result.name
        computes = any(use.value.name == name for use in self.reached(group).computed)
        self.placed[name] = group.stage
        hazards = self._hazards(definition, group)
        walked = sum(len(self._walked(other)) for other in self.groups)
        del self.placed[name]
        return (hazards, group is new, not computes, walked, -group.stage)

    def _walked(self, group: Group) -> set[str]:
        """The arrays that a sweep over the gradient's space reads from end to end."""
        if group.shape != self.graph.gradient:
            return set()
        return {use.value.name for use in self.reached(group).leaves if use.kind == "own" and use.value.shape}

    def _hazards(self, definition: Definition, group: Group) -> int:
        """How many sweeps would read what this write destroys."""
        old = self.replaces.get(definition.result.name)
        if old is None:
            return 0
        here = {"own"} if definition.shape else {"own", "scalar"}
        found = 0
        for other in self.groups:
            kinds = {use.kind for use in self.reached(other).leaves if use.value.name == old}
            found += bool(kinds) if other.stage > group.stage else other is group and bool(kinds - here)
        return found

    def _own_stage(self, definition: Definition, earliest: int, latest: float) -> int:
        """The stage of a sweep for this write alone: after the readers of what it replaces."""
        old = self.replaces.get(definition.result.name)
        readers = [g.stage for g in self.groups if any(u.value.name == old for u in self.reached(g).leaves)]
        return int(min(max([earliest, *readers]), latest))

    def _write_mode(self, definition: Definition) -> Mode:
        flat = len(definition.shape) == 2 and definition.result.name in self.packed
        return "flat" if flat else "any"

    def _keep_what_is_dear(self) -> None:
        """Write definitions that later sweeps would compute again at a higher cost than loading them."""
        for definition in self.graph.definitions.values():
            name, shape = definition.result.name, definition.shape
            if name in self.placed or not shape:
                continue
            users = [g for g in self.groups if g.takes(shape, definition.count, "any") and self._computes(g, name)]
            users.sort(key=lambda group: group.stage)
            later = [group for group in users if group.stage > users[0].stage]
            if later and self._is_dear(definition, len(later)):
                users[0].written.append(definition)
                self.placed[name] = users[0].stage

    def _computes(self, group: Group, name: str) -> bool:
        return Use(self.graph.definitions[name].result, "own") in self.reached(group).computed

    def _is_dear(self, definition: Definition, times: int) -> bool:
        """Whether computing an element so many times more costs more than a store and as many loads."""
        reached = self._unplaced(definition.uses("own"), definition.shape)
        found = (self.graph.definition(use.value.name) for use in reached.computed)
        computed = [definition, *(d for d in found if d is not None and d.shape == definition.shape)]
        arrays = {use.value.name for use in reached.leaves if use.value.shape == definition.shape}
        gathers = sum(self._gathered(s, definition.shape) for d in computed for s in d.needed if s.opcode == "load_at")
        return any(d.expensive for d in computed) or (len(arrays) + gathers - 1) * times >= SAVED_READS

    def _gathered(self, load: ir.Statement, shape: Shape) -> int:
        """How many arrays are read to gather one element."""
        assert load.source is not None
        leaves = self._unplaced([Use(load.source, "at")], shape).leaves
        return len({use.value.name for use in leaves if use.value.shape})

    def _unplaced(self, uses: Iterable[Use], shape: Shape) -> Reached:
        """What is reached if whatever is in memory anyway is loaded."""
        return self.graph.reach(
            uses, lambda use: use.value.name not in self.placed and self.graph.may_inline(use, shape)
        )

    # --- order -------------------------------------------------------------------------------------------------------

    def _ordered(self) -> list[Group]:
        """By stage; within one, readers of an old value before the writer of the new one, else as in the program."""
        waiting = sorted(self.groups, key=lambda group: (group.stage, group.order))
        reads = {id(g): {use.value.name for use in self.reached(g).leaves} for g in waiting}
        ordered: list[Group] = []
        while waiting:
            stage = [group for group in waiting if group.stage == waiting[0].stage]
            free = (g for g in stage if not any(self._destroys(g) & reads[id(o)] for o in stage if o is not g))
            chosen = next(free, stage[0])
            waiting.remove(chosen)
            ordered.append(chosen)
        return ordered

    def _destroys(self, group: Group) -> set[str]:
        """The values whose memory a group overwrites."""
        written = [d.result.name for d in group.written] + [v.name for root in group.roots for v in root.results]
        return {self.replaces[name] for name in written if name in self.replaces}
