"""`import compll` is cheap: it brings in neither torch nor cupy."""

import subprocess
import sys

import pytest

import compll


def test_import_brings_in_neither_torch_nor_cupy() -> None:
    code = "import compll, sys; assert not {'torch', 'cupy', 'numpy', 'lark'} & sys.modules.keys(), sorted(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_exists() -> None:
    for name in compll.__all__:
        assert getattr(compll, name).__name__ == name


def test_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(AttributeError, match="no name `lod`; it has .*load"):
        compll.lod  # noqa: B018
