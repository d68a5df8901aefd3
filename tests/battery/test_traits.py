"""A program that declares a trait which it does not have is found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from compll.battery import Report, run_battery

#: Programs that lie: their trait, and how.
LIES = {
    "unbiased": """
        // always rounds down
        compressor liar {
            trait unbiased;
            payload { value: f32[n]; }
            encode(g: f32[n]) { return { value: map(|x| floor(x * 4.0) / 4.0, g) }; }
            decode(p) -> f32[n] { return p.value; }
        }
    """,
    "linear": """
        // clips on arrival
        compressor liar {
            trait linear;
            payload { value: f32[n]; }
            encode(g: f32[n]) { return { value: g }; }
            decode(p) -> f32[n] { return map(|x| clamp(x, -1.0, 1.0), p.value); }
        }
    """,
    "contraction": """
        // three times too much
        compressor liar {
            trait contraction;
            payload { value: f32[n]; }
            encode(g: f32[n]) { return { value: map(|x| 3.0 * x, g) }; }
            decode(p) -> f32[n] { return p.value; }
        }
    """,
    "zero_preserving": """
        // one bit cannot say zero
        compressor liar {
            trait zero_preserving;
            payload { code: u1[n]; }
            encode(g: f32[n]) { return { code: u1(map(|x| x >= 0.0 ? 1 : 0, g)) }; }
            decode(p) -> f32[n] { return map(|q| q == 1 ? 1.0 : -1.0, p.code); }
        }
    """,
    "momentum": """
        // no velocity anywhere
        compressor liar {
            trait momentum;
            state pending: f32[n];
            payload { index: u32[<= limit]; value: f32[len(index)]; }
            encode(g: f32[n]) {
                size limit = max(1, floor(0.01 * n));
                pending = pending + g;
                let chosen = filter(pending, |x| x != 0.0, at_most = limit);
                clear(pending, chosen.index);
                return { index: chosen.index, value: chosen.value };
            }
            decode(p) -> f32[n] { return scatter(n, p.index, p.value); }
        }
    """,
    "shared_seed": """
        // one draw is shared, the other one is not
        compressor liar {
            trait shared_seed;
            payload { value: f32[k]; }
            encode(g: f32[n]) {
                size k = max(1, floor(0.5 * n));
                let index = random.choose(n, k, shared = true);
                let noise = random.uniform(k);
                return { value: map(|x, u| x + u, g[index], noise) };
            }
            decode(p) -> f32[n] { return scatter(n, random.choose(n, len(p.value), shared = true), p.value); }
        }
    """,
}

#: The same with the truth, where a small change makes it true.
TRUTHS = {
    "unbiased": ("floor(x * 4.0) / 4.0, g", "floor(x * 4.0 + u) / 4.0, g, random.uniform(n)", "|x|", "|x, u|"),
    "linear": ("clamp(x, -1.0, 1.0)", "x * 0.5"),
    "contraction": ("3.0 * x", "0.75 * x"),
    "zero_preserving": ("q == 1 ? 1.0 : -1.0", "q == 1 ? 0.0 : -1.0"),
    "shared_seed": ("random.uniform(k)", "random.uniform(k, shared = true)"),
}


def check(folder: Path, text: str) -> Report:
    path = folder / "liar.cll"
    path.write_text(text)
    return run_battery(path, backends=["reference"])


@pytest.mark.parametrize("trait", LIES)
def test_false_trait_is_found(trait: str, tmp_path: Path) -> None:
    report = check(tmp_path, LIES[trait])
    assert [result.law for result in report.laws if not result.ok] == [trait]
    assert not report.ok


@pytest.mark.parametrize("trait", TRUTHS)
def test_true_trait_holds(trait: str, tmp_path: Path) -> None:
    text = LIES[trait]
    changes = iter(TRUTHS[trait])
    for old, new in zip(changes, changes, strict=True):
        assert old in text
        text = text.replace(old, new)
    report = check(tmp_path, text)
    assert report.ok, [result for result in report.laws if not result.ok]
    assert trait in [result.law for result in report.laws]
