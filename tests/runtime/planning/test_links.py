"""Formulas by hand, and a link found again from collectives that were measured on it."""

from __future__ import annotations

import pytest

from compll.diagnostics import CompllError
from compll.runtime.planning.costs import Topology
from compll.runtime.planning.curves import Curve, fit
from compll.runtime.planning.links import COLLECTIVES, Link, Linked, Measured, fitted_link

LINK = Link(latency=1e-4, bandwidth=1e8)


def test_formulas() -> None:
    four = Linked(ranks=4, link=LINK)
    assert four.all_reduce(4e6) == pytest.approx(6e-4 + 1.5 * 0.04)
    assert four.all_gather(1e6) == pytest.approx(3 * (1e-4 + 0.01))
    assert four.all_to_all(4e6) == pytest.approx(3e-4 + 0.03)
    assert four.shift(1e6) == pytest.approx(1e-4 + 0.01)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_alone_nothing_is_sent(name: str) -> None:
    assert getattr(Linked(ranks=1, link=LINK), name)(1e6) == 0.0
    assert getattr(Measured(ranks=1, curves={}), name)(1e6) == 0.0


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("ranks", [2, 5])
def test_measuring_one_collective_tells_of_the_others(name: str, ranks: int) -> None:
    truth = Linked(ranks=ranks, link=LINK)
    curve = fit((size, getattr(truth, name)(size)) for size in (1e3, 1e5, 1e6, 1e7))
    assert fitted_link(ranks, {name: curve}).bandwidth == pytest.approx(LINK.bandwidth, rel=1e-6)
    measured = Measured(ranks=ranks, curves={name: curve})
    for other in COLLECTIVES:
        assert getattr(measured, other)(3e6) == pytest.approx(getattr(truth, other)(3e6), rel=1e-6)


def test_what_was_measured_is_taken_as_it_is() -> None:
    measured = Measured(ranks=4, curves={"all_gather": Curve(slope=1e-8), "all_reduce": Curve(floor=1.0)})
    assert measured.all_reduce(10) == 1.0 and measured.all_gather(100) == pytest.approx(1e-6)


def test_without_a_collective_there_is_no_link() -> None:
    with pytest.raises(CompllError, match="no collective of 3 ranks was measured"):
        fitted_link(3, {})
    with pytest.raises(CompllError, match="bandwidth above 0"):
        Link(latency=0.0, bandwidth=0.0)


def test_ranks_of_a_node_share_its_link() -> None:
    near = Link(latency=1e-6, bandwidth=1e10)
    topology = Topology.of_links(8, LINK, node_size=4, inside=near)
    assert topology.nodes == 2 and topology.hierarchical
    assert topology.inside.all_gather(1e6) == pytest.approx(3 * (1e-6 + 1e-4))
    assert topology.across.all_gather(1e6) == pytest.approx(1e-4 + 0.04)  # a quarter of the link for each of four
    assert topology.everyone.all_to_all(8e6) == pytest.approx(7e-4 + 4 * 4 * 1e6 / 1e8)
    assert topology.everyone.all_reduce(8e6) == pytest.approx(14e-4 + 14 * 1e6 / 1e8)  # a ring crosses it once


def test_one_node_is_on_its_inner_links() -> None:
    near = Link(latency=1e-6, bandwidth=1e10)
    topology = Topology.of_links(4, LINK, node_size=4, inside=near)
    assert not topology.hierarchical and topology.everyone.shift(1e6) == pytest.approx(1.01e-4)


def test_nodes_are_full() -> None:
    with pytest.raises(CompllError, match="6 ranks cannot be divided into nodes of 4"):
        Topology.of_links(6, LINK, node_size=4)
