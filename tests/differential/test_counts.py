"""Bounded fields that do not share their counts: what a program may return in them, alike on all backends."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import compll

KEPT = "let kept = filter(g, |x| x > 0.0, at_most = n);"
PROGRAMS = {
    "one filter in two fields with counts of their own": (
        "index: ascending(n)[<= n]; value: f32[<= n];", f"{KEPT} return {{ index: kept.index, value: kept.value }};"
    ),
    "narrower fields with counts of their own": (
        "index: u16[<= n]; value: f16[<= n];", f"{KEPT} return {{ index: kept.index, value: f16(kept.value) }};"
    ),
    "an array as long as the bound": (
        "index: ascending(n)[<= n]; value: f32[len(index)];", "return { index: iota(n), value: g };"
    ),
    "an array as long as the bound beside a shorter one": (
        "index: ascending(n)[<= n]; value: f32[<= n];", f"{KEPT} return {{ index: kept.index, value: g }};"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_bounded_fields(name: str, tmp_path: Path) -> None:
    fields, body = PROGRAMS[name]
    path = tmp_path / "t.cll"
    path.write_text(f"""compressor t {{
        payload {{ {fields} }}
        encode(g: f32[n]) {{ {body} }}
        decode(p) -> f32[n] {{ return scatter(n, p.index, 1.0) + fill(n, value = sum(f32(p.value))); }}
    }}""")
    g = torch.randn(300, generator=torch.Generator().manual_seed(0))
    seen = []
    for backend in ("reference", "cpu"):
        compressor = compll.load(path, backend=backend)
        payload = compressor.encode(g)
        seen.append((payload.buffer, compressor.decode(payload)))
    (reference, decoded), (bytes_, also) = seen
    assert torch.equal(reference, bytes_) and torch.equal(decoded, also)
    values = g if "as long" in name else g[g > 0]
    positions = (g > 0) | (", value: g }" in body and "iota" in body)
    expected = positions.float() + (values.half().float() if "f16" in fields else values).sum()
    torch.testing.assert_close(decoded, expected, rtol=1e-4, atol=1e-4)
