"""Codes of every width: fields that are wider than half of what they are joined in were mixed up once (5..7, 9..15)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import compll.codegen
from compll.runtime.devices import cpu

HERE = Path(__file__).parent


@pytest.mark.skipif(cpu.available() is not None, reason="needs a C++ compiler")
def test_every_width_packs_and_unpacks(tmp_path: Path) -> None:
    include = Path(compll.codegen.__file__ or "").parent / "include"
    program = tmp_path / "pack_widths"
    source = HERE / "pack_widths.cpp"
    subprocess.run(["g++", "-std=c++17", "-O1", "-I", include, source, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
