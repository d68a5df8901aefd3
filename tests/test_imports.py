"""Imports go down only, and importing compll is cheap."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_floors_are_kept() -> None:
    """The contracts of setup.cfg; import-linter shows the import that breaks one."""
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("module", ["compll", "compll.dsl.check", "compll.codegen.driver", "compll.cli"])
def test_import_needs_neither_torch_nor_cupy(module: str) -> None:
    code = f"import sys, {module}; found = {{'torch', 'cupy'}} & sys.modules.keys(); assert not found, found"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


DOORS = {
    "lark": ("dsl/",),
    "jinja2": ("codegen/emit/environment.py",),
    "cupy": ("runtime/devices/cuda.py",),
    "subprocess": ("runtime/devices/",),
    "typer": ("cli/",),
    "matplotlib": ("cli/picture.py",),
    "sklearn": ("cli/training/data.py",),
}


@pytest.mark.parametrize("library", DOORS)
def test_library_has_one_door(library: str) -> None:
    """Every import of a third-party library lies behind its door."""
    package = ROOT / "compll"
    words = (f"import {library}", f"from {library}")
    lines = ((path, line.strip()) for path in package.rglob("*.py") for line in path.read_text().splitlines())
    users = {str(path.relative_to(package)) for path, line in lines if line.startswith(words)}
    assert [user for user in users if not user.startswith(DOORS[library])] == []
