"""Passes and bytes per element of a plan, counted by hand."""

from __future__ import annotations

import pytest

from compll.codegen import ir
from compll.codegen.kernels import partition
from compll.codegen.merge_traffic import merge_traffic
from compll.codegen.passes import optimise
from compll.codegen.traffic import Traffic, traffic
from tests.codegen import samples
from tests.codegen.build import environment_of

NUMEL = 1 << 16


def of(program: ir.Program, function: str, dtype: str = "f32") -> Traffic:
    optimised = optimise(program)
    plan = partition(optimised, optimised.function(function), dtype)
    return traffic(plan, environment_of(optimised, NUMEL, 256))


def merged(program: ir.Program, payloads: int) -> Traffic:
    optimised = optimise(program)
    plans = {name: partition(optimised, optimised.function(name), "f32") for name in ("decode", "decode_add")}
    return merge_traffic(plans, environment_of(optimised, NUMEL, 256), payloads)


def test_selection() -> None:
    """g, r in and acc out, then 1/8 of the elements: index and value out; index, value, acc in, residual out."""
    found = of(samples.top_k(), "encode_with_feedback")
    assert found.passes == 1
    assert found.bytes_per_element == pytest.approx(12 + (8 + 16) / 8, rel=1e-3)
    assert found.floor_bytes_per_element == pytest.approx(12 + 1, rel=1e-3)
    assert [name for _, _, name in found.kernels] == ["top_index", "new_residual"]


def test_two_means() -> None:
    """g, r in; g, r in, residual and a bit out."""
    found = of(samples.sign_mean(), "encode_with_feedback")
    assert found.passes == 2
    assert found.bytes_per_element == pytest.approx(20 + 1 / 8, rel=1e-3)
    assert found.floor_bytes_per_element == pytest.approx(12 + 1 / 8, rel=1e-3)


def test_stochastic_codes() -> None:
    assert of(samples.ternary(), "encode").passes == 2
    assert of(samples.ternary(), "encode").bytes_per_element == pytest.approx(8.25, rel=1e-3)
    assert of(samples.ternary(), "encode_with_feedback").passes <= 3


def test_half_gradients_move_fewer_bytes() -> None:
    whole, half = of(samples.ternary(), "encode"), of(samples.ternary(), "encode", "f16")
    assert whole.bytes_per_element - half.bytes_per_element == pytest.approx(4, rel=1e-3)


def test_two_states() -> None:
    """g, two states in and out; an eighth found, a byte each of index and value; two scatters."""
    found = of(samples.momentum_filter(), "encode")
    assert found.passes == 1
    assert found.bytes_per_element == pytest.approx(20 + 1 + (4 + 8) / 8, rel=1e-2)


def test_rounds_of_a_loop_count() -> None:
    assert of(samples.search(), "encode").passes == 1 + 6 + 1


def test_decoding_a_selection_fills_the_result_once() -> None:
    found = of(samples.top_k(), "decode")
    assert (found.passes, found.bytes_per_element) == (1, pytest.approx(4 + 12 / 8, rel=1e-3))
    assert of(samples.top_k(), "decode_add").passes == 0


def test_elementwise_payloads_are_merged_in_one_walk() -> None:
    """Their bits in, the mean out."""
    found = merged(samples.sign_mean(), 4)
    assert (found.passes, found.bytes_per_element) == (1, pytest.approx(4 + 4 / 8, rel=1e-3))
    assert found.floor_bytes_per_element == pytest.approx(found.bytes_per_element)


def test_a_sum_of_selections_is_read_once_more_to_be_divided() -> None:
    """Decode of the first, decode_add of the second; then the sum in and out."""
    found = merged(samples.top_k(), 2)
    assert found.passes == 2
    decoded, added = of(samples.top_k(), "decode"), of(samples.top_k(), "decode_add")
    turns = decoded.bytes_per_element + added.bytes_per_element
    assert found.bytes_per_element == pytest.approx(turns + 8, rel=1e-3)
    assert found.floor_bytes_per_element == pytest.approx(4 + 2 * 8 / 8, rel=1e-3)


def test_nothing_is_below_its_floor() -> None:
    for make in samples.SAMPLES:
        for function in ("encode", "encode_with_feedback", "decode", "decode_add"):
            found = of(make(), function)
            assert found.bytes_per_element >= found.floor_bytes_per_element
        assert merged(make(), 3).bytes_per_element >= merged(make(), 3).floor_bytes_per_element
