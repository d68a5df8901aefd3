"""Each primitive has a signature that reads, a rule in the checker and a place in the reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compll.diagnostics import SourceFile
from compll.dsl import check_primitives
from compll.dsl.check import check
from compll.dsl.check_primitives import RULES
from compll.dsl.parse import parse
from compll.primitives import PRIMITIVES

REFERENCE = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")


def test_every_primitive_has_a_rule() -> None:
    assert set(PRIMITIVES) == set(RULES)


def test_signatures() -> None:
    formals = PRIMITIVES["random.uniform"].formals()
    assert [(f.name, f.option, f.required, f.variadic) for f in formals] == [
        ("dimensions", False, False, True), ("shared", True, False, False), ("bits", True, False, False),
    ]  # fmt: skip
    assert [f.name for f in PRIMITIVES["filter"].formals() if f.required] == ["x", "predicate", "at_most"]


@pytest.mark.parametrize("name", PRIMITIVES)
def test_the_reference_describes_it(name: str) -> None:
    assert re.search(rf"`{re.escape(name)}\(", REFERENCE), f"docs/language.md does not describe `{name}`"


def test_only_draws_and_collectives_are_impure() -> None:
    impure = {name for name, spec in PRIMITIVES.items() if not spec.pure}
    assert impure == {"sample", "random.uniform", "random.normal", "random.choose", "all_reduce_mean"}


def test_the_programs_of_the_reference_check_without_a_warning() -> None:
    programs = [block for block in re.findall(r"```\n(.*?)```", REFERENCE, re.S) if "compressor" in block]
    assert programs
    for text in programs:
        assert check(parse(SourceFile("language.md", text)))[1] == ()


def test_the_reference_lists_every_code() -> None:
    folder = Path(check_primitives.__file__).parent
    raised = {c for path in folder.glob("*.py") for c in re.findall(r'"([EW]0\d{3})"', path.read_text("utf-8"))}
    at_a_shape = {"E0139"}
    assert raised | at_a_shape == set(re.findall(r"\b[EW]0\d{3}\b", REFERENCE))
