"""Where gradients may be cut."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import compll
from compll.runtime.gradients import GradientSpec
from compll.runtime.pieces import cut

ROWS = """
compressor rows {{
    payload {{ value: f32[rows, cols]; }}
    encode(m: f32[rows, cols]) {{
        let sums = m;
        let turns = 0.0;
        repeat <= 3 while turns < 2.0 {{
            sums = {step};
            turns = turns + 1.0;
        }}
        return {{ value: sums }};
    }}
    decode(p) -> f32[rows, cols] {{ return p.value; }}
}}
"""


@pytest.mark.parametrize("step, pieces", [("2.0 * sums", 4), ("matmul(m, matmul(transpose(m), sums))", 1)])
def test_products_inside_a_loop_keep_a_gradient_whole(step: str, pieces: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.cll"
    path.write_text(ROWS.format(step=step))
    compressor = compll.load(path, backend="reference")
    spec = GradientSpec(name="first", index=0, shape=torch.Size((40, 8)), dtype=torch.float32, compressible=True)
    assert len(cut(spec, 4, compressor)) == pieces
