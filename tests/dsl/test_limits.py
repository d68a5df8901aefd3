"""Programs that ask for too much are refused in time, where they do; the largest that are allowed compile."""

from __future__ import annotations

from pathlib import Path

import pytest
from dsl_sources import ALGORITHMS, source_of, wrapped

from compll.codegen.driver import Compilation
from compll.diagnostics import CompllError, Diagnostic, SourceFile
from compll.dsl.check import check
from compll.dsl.check_limits import check_limits
from compll.dsl.facts import call_graph
from compll.dsl.limits import MAX_FIELDS, MAX_ROUNDS, MAX_STEPS, MAX_TOKENS
from compll.dsl.parse import parse

DOUBLING = "fn d0(x: f32) -> f32 { return x + 1.0; } " + " ".join(
    f"fn d{i + 1}(x: f32) -> f32 {{ return d{i}(d{i}(x)); }}" for i in range(30)
)


def refused(source: SourceFile) -> Diagnostic:
    with pytest.raises(CompllError) as caught:
        check(parse(source))
    (problem,) = caught.value.diagnostics
    assert problem.span is not None
    return problem


def compiled(source: SourceFile) -> Compilation:
    compilation = Compilation(check(parse(source))[0], ())
    assert compilation.source("cpu") and compilation.source("cuda")
    return compilation


def chain(length: int) -> str:
    return "let a0 = g; " + " ".join(f"let a{i + 1} = a{i} + 1.0;" for i in range(length)) + f" return a{length};"


def payload(fields: int) -> SourceFile:
    names = [f"f{i}" for i in range(fields)]
    text = f"""compressor t {{
        payload {{ {" ".join(f"{name}: ascending(n)[<= n];" for name in names)} }}
        encode(g: f32[n]) {{
            let kept = filter(g, |x| x > 0.0, at_most = n);
            return {{ {", ".join(f"{name}: kept.index" for name in names)} }};
        }}
        decode(p) -> f32[n] {{ return scatter(n, p.f0, 1.0); }}
    }}"""
    return SourceFile("t.cll", text)


def test_functions_that_double_each_other() -> None:
    problem = refused(wrapped("return d30(g);", DOUBLING))
    assert (problem.code, problem.span and problem.span.text) == ("E0138", "return d30(g);")
    assert problem.message.startswith(f"at most {MAX_STEPS} statements and operations in a program, got 5368709")
    compiled(wrapped("return d7(g);", DOUBLING))


def test_functions_whose_results_grow_double_no_instances() -> None:
    growing = "fn d0(x: f32[m]) -> f32[m + 1] { return fill(m + 1, value = sum(x)); } " + " ".join(
        f"fn d{i + 1}(x: f32[m]) -> f32[m + {2 ** (i + 1)}] {{ return d{i}(d{i}(x)); }}" for i in range(30)
    )
    assert refused(wrapped("return g * sum(d30(g));", growing)).code == "E0138"


def test_statements() -> None:
    problem = refused(wrapped(chain(1500)))
    assert (problem.code, problem.span and problem.span.text) == ("E0138", "let a1000 = a999 + 1.0;")
    compiled(wrapped(chain(400)))  # much deeper than the interpreter's stack


def test_words() -> None:
    problem = refused(wrapped(chain(22_000)))
    assert problem.message == f"at most {MAX_TOKENS} words and signs"


def test_fields() -> None:
    problem = refused(payload(1000))
    assert problem.message == f"at most {MAX_FIELDS} fields in a payload, got 1000"
    compiled(payload(MAX_FIELDS))


def test_states() -> None:
    declared = " ".join(f"state s{i}: f32[n];" for i in range(MAX_FIELDS + 1))
    assert refused(wrapped("return g;", declared)).message == f"at most {MAX_FIELDS} states, got {MAX_FIELDS + 1}"


@pytest.mark.parametrize("place", ["", "state s: f32[k29];"])
def test_sizes_that_double_each_other(place: str) -> None:
    sizes = "size k0 = n; " + " ".join(f"size k{i + 1} = k{i} + k{i};" for i in range(30))
    with pytest.raises(CompllError) as caught:
        check(parse(wrapped(f"{sizes} return g * f32(k30);", place)))
    first = caught.value.diagnostics[0]
    assert first.code in ("E0138", "E0101")
    assert any(d.message.startswith("a size of at most 200 names") for d in caught.value.diagnostics)


def test_dimensions_that_double_each_other() -> None:
    twice = "fn w(x: f32[m]) -> f32[m + m] { return fill(m + m, value = sum(x)); }"
    problem = refused(wrapped(f"return g * sum({'w(' * 20}g{')' * 20});", twice))
    assert problem.code == "E0138"


def test_rounds() -> None:
    loop = "let a = sum(g); repeat <= {} while true {{ a = a + 1.0; }} return g * a;"
    problem = refused(wrapped(loop.format("1e12")))
    assert problem.message == f"the limit of `repeat` must lie in [0, {MAX_ROUNDS}], got 1000000000000"
    module, _ = check(parse(wrapped(loop.format("rounds"), "param rounds: f32 = 5.0;")))
    for rounds in (1e12, -1.0, float("inf")):
        with pytest.raises(CompllError, match=r"t.cll:1:\d+: error\[E0108\]: the limit .* in \[0, 10000\], got"):
            Compilation(module, (("rounds", rounds),)).program


def test_numbers_of_any_length() -> None:
    assert refused(wrapped(f"return g * 0x{'f' * 300};")).message == "number 0xffffffffffffffffff... is too large"
    assert refused(wrapped(f"return g * {'9' * 5000}.0;")).code == "E0005"


@pytest.mark.parametrize("path", ALGORITHMS, ids=lambda path: path.stem)
def test_shipped_programs_are_far_below(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compll.dsl.check_limits.MAX_STEPS", MAX_STEPS // 10)
    monkeypatch.setattr("compll.dsl.check_sizes.MAX_TERMS", 40)
    module = parse(source_of(path))
    functions = {f.name: f for f in module.compressor.functions}
    check_limits(module.compressor, functions, call_graph(functions))
    check(module)


def test_numbers_beyond_f32() -> None:
    assert refused(wrapped("return g * 3.45e38;")).message == "3.45e38 does not fit f32, whose values reach 3.4e38"
    problem = refused(wrapped("return g * p;", "param p: f32 = 1e300;"))
    assert problem.message == "parameter `p` needs an f32 number, got 1e+300"
