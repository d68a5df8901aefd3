"""One rounding to the dtype asked for: nearest even, finite values saturate, inf and NaN pass."""

import math
from pathlib import Path

import pytest
import torch

import compll
from compll.runtime.rounding import divide, round_into


@pytest.mark.parametrize("dtype, largest", [(torch.float16, 65504.0), (torch.bfloat16, 3.3895313892515355e38)])
def test_saturation_and_specials(dtype: torch.dtype, largest: float) -> None:
    source = torch.tensor([3.4e38, -3.4e38, math.inf, -math.inf, math.nan, 1.0, -0.0])
    out = torch.empty(7, dtype=dtype)
    round_into(source, out)
    assert out[:4].tolist() == [largest, -largest, math.inf, -math.inf]
    assert out[4].isnan() and out[5] == 1.0 and math.copysign(1.0, out[6].item()) == -1.0


def test_ties_go_to_even() -> None:
    out = torch.empty(2, dtype=torch.float16)
    round_into(torch.tensor([2049.0, 2051.0]), out)
    assert out.tolist() == [2048.0, 2052.0]


def test_division_by_many_divisors() -> None:
    sums = [torch.full((2,), 6.0), torch.full((3,), 7.0, dtype=torch.float16), torch.full((1,), 8.0)]
    divide(sums, [3, 2, 1])
    assert [each[0].item() for each in sums] == [2.0, 3.5, 8.0]


def test_nobody_else_divides() -> None:
    """`div_` gives other bits on a GPU."""
    runtime = Path(compll.__file__).parent / "runtime"
    assert [str(path) for path in runtime.rglob("*.py") if ".div_(" in path.read_text()] == []
