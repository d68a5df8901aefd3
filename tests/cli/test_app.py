"""The application as a whole."""

from __future__ import annotations

import subprocess
import sys

import pytest

from compll.cli import main
from compll.cli.app import COMMANDS


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert not end.value.code
    said = capsys.readouterr().out
    assert all(f"  {name} " in said for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert not end.value.code and f"compll {name}" in capsys.readouterr().out


def test_nothing_asked_for_is_wrong_usage() -> None:
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 2


def test_a_command_loads_no_other_ones_libraries() -> None:
    code = (
        "import sys; from compll.cli.app import application; application(['explain']); "
        "found = {'sklearn', 'matplotlib'} & sys.modules.keys(); assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_python_dash_m_is_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "compll", "nosuch"], capture_output=True, text=True)
    assert done.returncode == 2 and "nosuch" in done.stderr and "Traceback" not in done.stderr
