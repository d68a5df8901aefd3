"""What collectives cost on links of known latency and bandwidth, or as they were measured. Pure.

Formulas of rings, by volume (Thakur, Rabenseifner, Gropp 2005): with N ranks and a link of B bytes/s and `latency`
seconds a message, all-reduce of m bytes 2 (N-1) latency + 2 (N-1)/N m/B, all-gather of c bytes from each rank
(N-1) (latency + c/B), all-to-all of c bytes from each rank (N-1) latency + (N-1)/N c/B.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from compll.diagnostics import CompllError
from compll.runtime.planning.curves import Curve

#: What `Network` has; `shift` is every rank sending to its successor.
COLLECTIVES = ("all_reduce", "all_gather", "all_to_all", "shift")


class Network(Protocol):
    """A group of ranks. Every argument is what one rank hands in, in bytes; every result is seconds."""

    def all_reduce(self, nbytes: float) -> float: ...

    def all_gather(self, nbytes: float) -> float: ...

    def all_to_all(self, nbytes: float) -> float: ...

    def shift(self, nbytes: float) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One rank's way to the others: seconds a message, bytes a second. Raises CompllError unless both make sense."""

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        if not (self.latency >= 0 and self.bandwidth > 0):
            raise CompllError(
                f"a link needs a latency of at least 0 and a bandwidth above 0, got {self.latency} and {self.bandwidth}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """`ranks` on equal links, by formula. `sharing` ranks use one link for what goes between nodes: a ring crosses it
    once whatever their number, an all-to-all once for each of them."""

    ranks: int
    link: Link
    sharing: int = 1

    def all_reduce(self, nbytes: float) -> float:
        others = self.ranks - 1
        return 2 * others * self.link.latency + 2 * others / self.ranks * nbytes / self.link.bandwidth

    def all_gather(self, nbytes: float) -> float:
        return (self.ranks - 1) * self.shift(nbytes)

    def all_to_all(self, nbytes: float) -> float:
        others = self.ranks - 1
        outside = self.sharing * (self.ranks - self.sharing) if self.sharing > 1 else others
        return others * self.link.latency + outside / self.ranks * nbytes / self.link.bandwidth

    def shift(self, nbytes: float) -> float:
        return self.link.latency + nbytes / self.link.bandwidth if self.ranks > 1 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """`ranks` whose collectives were timed, by bytes; what was not falls back to a link fitted to what was."""

    ranks: int
    curves: Mapping[str, Curve]
    _rest: Linked = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rest", Linked(ranks=self.ranks, link=fitted_link(self.ranks, self.curves)))

    @property
    def bandwidth(self) -> float:
        """Of the links, in bytes a second: what the collective that makes the most of them gets."""
        return max(fitted_link(self.ranks, {name: curve}).bandwidth for name, curve in self.curves.items())

    def all_reduce(self, nbytes: float) -> float:
        return self._seconds("all_reduce", nbytes)

    def all_gather(self, nbytes: float) -> float:
        return self._seconds("all_gather", nbytes)

    def all_to_all(self, nbytes: float) -> float:
        return self._seconds("all_to_all", nbytes)

    def shift(self, nbytes: float) -> float:
        return self._seconds("shift", nbytes)

    def _seconds(self, name: str, nbytes: float) -> float:
        if self.ranks == 1:
            return 0.0
        curve = self.curves.get(name)
        by_formula: float = getattr(self._rest, name)(nbytes)
        return curve(nbytes) if curve else by_formula


def link_of(network: Network) -> Link:
    """The link that explains a network, linked or measured. Raises CompllError for a measured one of one rank."""
    assert isinstance(network, (Measured, Linked))
    return fitted_link(network.ranks, network.curves) if isinstance(network, Measured) else network.link


def fitted_link(ranks: int, curves: Mapping[str, Curve]) -> Link:
    """The link that explains a group's measured collectives: of the first measured of all_gather, all_reduce,
    all_to_all, shift. Raises CompllError when none was, or one rank has nothing to measure."""
    per_message = {"all_gather": (1.0, 1.0), "all_reduce": (2.0, 2 / ranks), "all_to_all": (1.0, 1 / ranks)}
    for name, (messages, volume) in per_message.items():
        if (curve := curves.get(name)) and ranks > 1:
            others = ranks - 1
            return Link(latency=curve.start / (messages * others), bandwidth=volume * others / max(curve.slope, 1e-15))
    if curve := curves.get("shift"):
        return Link(latency=curve.start, bandwidth=1 / max(curve.slope, 1e-15))
    if ranks > 1:
        raise CompllError(f"no collective of {ranks} ranks was measured: one of {', '.join(COLLECTIVES)} is needed")
    return Link(latency=0.0, bandwidth=1.0)
