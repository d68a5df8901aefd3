"""What was to be reached, and what came of it: sentences for a report, misses included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.netlab.measure import Network
from benchmarks.netlab.ways import AUTO, FP16, FP32, TOPK

#: Of synchronisation with two workers on links of this rate: at least so many times faster than each.
RATE = "1gbit"
SPEEDUPS = {FP32: 8.0, FP16: 4.0}

#: How much longer than plain DDP's a step may be with `plan="auto"` where links are not shaped.
SLOWER = 0.03

#: How far a prediction may be from what was measured.
PREDICTION = 0.15


def verdicts(networks: Sequence[Network]) -> Iterator[str]:
    for network in networks:
        ours = network.of(TOPK)
        if ours and network.setup.label == f"2x1@{RATE}":
            yield from _speedups(network, ours.sync_ms)
        auto, dense = network.of(AUTO), network.of(FP32)
        if network.setup.rate == "none" and auto and dense:
            slower = auto.step_ms / dense.step_ms - 1
            yield (
                f"{_verdict(slower <= SLOWER)}: on links that are not shaped a step of {AUTO} takes "
                f"{auto.step_ms:.1f} ms, {abs(slower):.0%} {'more' if slower > 0 else 'less'} than plain DDP's "
                f"{dense.step_ms:.1f} ms (wanted {SLOWER:.0%} more at most)"
            )
    yield from _predictions(networks)


def _speedups(network: Network, sync_ms: float) -> Iterator[str]:
    for way, wanted in SPEEDUPS.items():
        if other := network.of(way):
            found = other.sync_ms / sync_ms if sync_ms else float("inf")
            least = network.link_ms(other) / sync_ms if sync_ms else float("inf")
            yield (
                f"{_verdict(found >= wanted)}: at {RATE}/s with two workers {TOPK} synchronises {found:.1f} times as "
                f"fast as {way} (wanted {wanted:g}), {least:.1f} times as fast as the link alone carries its bytes"
            )


def _predictions(networks: Sequence[Network]) -> Iterator[str]:
    errors = [abs(error) for network in networks for error in prediction_errors(network).values()]
    if errors:
        good = sum(error <= PREDICTION for error in errors)
        yield (
            f"{_verdict(good == len(errors))}: {good} of {len(errors)} predicted steps are within {PREDICTION:.0%} of "
            f"the measured ones; the worst is off by {max(errors):.0%}"
        )


def prediction_errors(network: Network) -> dict[str, float]:
    """By way: how much longer the predicted step is than the measured one, as a share of the measured one."""
    predicted = network.planned.predicted if network.planned else {}
    measured = {timing.way: timing.step_ms for timing in network.timings}
    return {way: ms / measured[way] - 1 for way, ms in predicted.items() if way in measured}


def _verdict(reached: bool) -> str:
    return "reached" if reached else "missed"
