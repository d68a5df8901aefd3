"""What only a shape or a parameter can show: extents that are none, arrays beyond memory, positions, widths."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import compll
from compll import CompllError


def load(folder: Path, fields: str, body: str, declared: str = "", **params: object) -> compll.Compressor:
    path = folder / "t.cll"
    path.write_text(f"""compressor t {{
        {declared}
        payload {{ {fields} }}
        encode(g: f32[n]) {{ {body} }}
        decode(p) -> f32[n] {{ return fill(n, value = 0.0); }}
    }}""")
    return compll.load(path, backend="cpu", **params)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("n / 3", "size `k` needs a whole number from 0 to 2^53, got 333.3333333333333"),
        ("0 - n", "size `k` needs a whole number from 0 to 2^53, got -1000"),
        ("1e30", "size `k` needs a whole number from 0 to 2^53, got 1e+30"),
        ("inf", "size `k` needs a whole number from 0 to 2^53, got inf"),
        ("floor(1e300) * 1e300", "size `k` needs a whole number from 0 to 2^53, got inf"),
        ("1 << 1e12", "size `(1 << 1000000000000)` has no value"),
        ("pow(10, 1e9)", "size `pow(10, 1000000000)` has no value: Numerical result out of range"),
        ("1 << 45", "an array needs to have at most 2^40 elements, got one of [k = 35184372088832]"),
    ],
)
def test_extents(size: str, message: str, tmp_path: Path) -> None:
    compressor = load(tmp_path, "v: f32[k];", f"size k = {size}; return {{ v: fill(k, value = 1.0) }};")
    with pytest.raises(CompllError) as caught:
        compressor.payload_bytes((1000,))
    assert message in str(caught.value)


def test_extents_of_what_is_not_sent(tmp_path: Path) -> None:
    compressor = load(tmp_path, "v: f32;", "size k = n / 3; return { v: sum(sort(fill(k, value = 1.0))) };")
    assert compressor.payload_bytes((999,)) == 4
    with pytest.raises(CompllError, match="size `k` needs a whole number"):
        compressor.encode(torch.ones(1000))


def test_what_fits_small_gradients_only_has_traits(tmp_path: Path) -> None:
    body = "size k = max(1, floor(n / 8)); return { i: topk(g, k).index };"
    compressor = load(tmp_path, "i: u8[k];", body)
    assert (compressor.feedback, compressor.traits, compressor.reduces_inside) == (False, frozenset(), False)
    assert compressor.encode(torch.arange(64.0)).buffer.tolist() == list(range(56, 64))
    with pytest.raises(CompllError, match="field `i` is u8, which holds indices below 256"):
        compressor.encode(torch.ones(264))


@pytest.mark.parametrize("width", [0, 17, 99, -1, 2.5])
def test_widths_of_parameters(width: float, tmp_path: Path) -> None:
    declared = "param b: f32 = 4.0;"
    compressor = load(tmp_path, "v: uint<b>[n];", "return { v: uint<b>(g) };", declared, b=width)
    with pytest.raises(CompllError, match=rf"`uint<b>` needs 1 to 16 or 32 bits, got {width:g}"):
        compressor.payload_bytes((8,))
