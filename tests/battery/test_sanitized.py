"""Programs under sanitizers, on the emulator."""

import shutil
from pathlib import Path

import pytest

from compll.battery.sanitized import sanitized

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="the emulator needs g++")

LARGE = """compressor large {
    feedback residual;
    payload { index: ascending(n)[k]; value: f32[k]; }
    encode(g: f32[n]) {
        size k = max(1, floor(n / 10));
        let top = topk(g, k, by = abs);
        return { index: top.index, value: top.value };
    }
    decode(p) -> f32[n] { return scatter(n, p.index, p.value); }
}
"""


@pytest.mark.parametrize("sanitizer", ["race", "address", "undefined"])
def test_a_sound_program_has_nothing_to_report(sanitizer: str, tmp_path: Path) -> None:
    path = tmp_path / "large.cll"
    path.write_text(LARGE)
    result = sanitized(str(path), {}, sanitizer)
    assert result.ok, result.detail
    assert result.backend == "emulator" and result.detail == "threads first to last, last to first, at random"


def test_a_process_that_complains_breaks_the_law(tmp_path: Path) -> None:
    result = sanitized(str(tmp_path / "missing.cll"), {}, "undefined")
    assert not result.ok and result.law == "no_undefined_behaviour"
    assert result.detail.startswith("threads first to last: Traceback"), result.detail
