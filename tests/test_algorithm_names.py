"""The compiler knows no algorithm: no code under compll/ speaks of one by name (docstrings and comments may)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from compll.primitives import PRIMITIVES
from compll.runtime.load import built_in_names

PACKAGE = Path(__file__).parents[1] / "compll"

#: Names that are words of the language or of the field, too.
WORDS = {"linear", "natural", "threshold"}

#: PyTorch's own hooks, with which the demo compares.
BASELINES = {"cli/training/exchange.py": {"powersgd"}}

NAMES = set(built_in_names()) - PRIMITIVES.keys() - WORDS


def test_python_names_no_algorithm() -> None:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        place = str(path.relative_to(PACKAGE))
        words = {word for text in code_texts(path) for word in split(text)}
        if used := (words & NAMES) - BASELINES.get(place, set()):
            found[place] = used
    assert found == {}


def test_templates_and_headers_name_no_algorithm() -> None:
    found = {}
    for path in sorted(p for p in PACKAGE.rglob("*") if p.suffix in (".j2", ".h", ".hpp", ".cuh", ".lark")):
        text = re.sub(r"//.*|/\*.*?\*/|\{#.*?#\}", "", path.read_text(), flags=re.MULTILINE)
        if used := split(text) & NAMES:
            found[path.name] = used
    assert found == {}


def test_the_search_would_find_one() -> None:
    assert {"onebit", "terngrad"} <= NAMES
    assert split("encode_onebit(TernGrad)") >= {"onebit", "terngrad"}


def split(text: str) -> set[str]:
    """The words of a text: `encode_onebit` has encode and onebit."""
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def code_texts(path: Path) -> Iterator[str]:
    """Every identifier and string of a module except docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and _has_docstring(node)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield text
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


def _has_docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> bool:
    first = node.body[0] if node.body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
