"""Which strategy takes which gradient in which pieces, and which of them travel together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from compll.runtime.codec import Part
from compll.runtime.gradients import GradientSpec, Slice, which_are_zero
from compll.runtime.pieces import Piece
from compll.runtime.plan import Plan
from compll.runtime.strategies import STRATEGIES, Context, StateSpec, Strategy, Unit
from compll.runtime.strategies.agreement import compared
from compll.runtime.tasks import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Travel:
    """A unit on its way: what it is called in traces, its gradients and its tasks."""

    strategy: str
    parts: Sequence[Part]
    graph: Graph

    @property
    def numels(self) -> list[tuple[str, int]]:
        """Each part's gradient with its number of elements."""
        return [(part.piece.spec.name, part.piece.numel) for part in self.parts]


class Routing:
    """Follows a plan; `alone`: every gradient is a unit of its own; `debug`: ranks compare units before they travel, as
    they do in the first step after states were loaded, which may be those of different steps.

    Gradients that are not compressible wait for the end of the step and travel in one pool. The others go with their
    bucket: one unit for each strategy, and one for each partition of those that the plan has in parts.
    """

    def __init__(
        self, plan: Plan, specs: Iterable[GradientSpec], context: Context, *, alone: bool = False, debug: bool = False
    ) -> None:
        self._plan, self._context, self._alone, self._debug = plan, context, alone, debug
        self._strategies: dict[str, Strategy] = {}
        self.pieces: dict[str, Sequence[Piece]] = {
            spec.name: self._strategy(route.strategy).pieces(spec, route.parts)
            for spec, route in ((spec, plan.routes[spec.name]) for spec in specs if spec.compressible)
        }

    @property
    def states(self) -> Iterator[StateSpec]:
        """The states that this rank keeps."""
        for name, pieces in self.pieces.items():
            for piece in pieces:
                yield from self._strategy(self._plan.routes[name].strategy).states(piece)

    def open(self, bucket: int, slices: Sequence[Slice], *, compressing: bool) -> Iterator[Travel]:
        """The units of a bucket; without `compressing` (before start_step) all dense."""
        units: dict[tuple[str, str, int], list[Part]] = {}
        given = [s for s in slices if s.spec.compressible]
        compressed = [s for s in given if compressing and self._plan.routes[s.spec.name].compressed]
        absent = which_are_zero([s.tensor for s in compressed])
        present = {s.spec.name: not zero for s, zero in zip(compressed, absent, strict=True)}
        for each in given:
            for name, part in self._parts(each, present.get(each.spec.name)):
                units.setdefault(name, []).append(part)
        for (strategy, alone, number), parts in units.items():
            yield self._travel(strategy, (bucket, strategy, alone, number), parts)

    def pool(self, slices: Iterable[Slice]) -> Iterator[Travel]:
        """The units of what is not compressible, one for each dense strategy that the plan gives them."""
        units: dict[str, list[Part]] = {}
        for given in (s for s in slices if not s.spec.compressible):
            strategy = self._plan.routes[given.spec.name].strategy
            units.setdefault(strategy, []).append(Part(_whole(given.spec), given.tensor, True))
        for strategy, parts in sorted(units.items()):
            yield self._travel(strategy, ("pool", strategy), parts)

    def _parts(self, given: Slice, present: bool | None) -> Iterator[tuple[tuple[str, str, int], Part]]:
        """With the units that they belong to. `present`: whether this rank has the gradient; None: it goes densely."""
        route = self._plan.routes[given.spec.name]
        if present is None:
            dense = "dense" if route.compressed else route.strategy
            yield (dense, given.spec.name if self._alone else "", 0), Part(_whole(given.spec), given.tensor, True)
            return
        alone = given.spec.name if self._alone or route.parts > 1 else ""
        for piece in self.pieces[given.spec.name]:
            yield (route.strategy, alone, piece.part), Part(piece, piece.of(given.tensor), present)

    def _travel(self, strategy: str, name: object, parts: Sequence[Part]) -> Travel:
        unit = Unit(name, parts)
        graph = self._strategy(strategy).open(unit)
        if self._debug or self._context.codec.resumed:
            graph = compared(self._context, unit, strategy, graph)
        return Travel(strategy=strategy, parts=parts, graph=graph)

    def _strategy(self, name: str) -> Strategy:
        if name not in self._strategies:
            self._strategies[name] = STRATEGIES[name](self._context)
        return self._strategies[name]


def _whole(spec: GradientSpec) -> Piece:
    return Piece(spec=spec, start=0, shape=spec.shape)
