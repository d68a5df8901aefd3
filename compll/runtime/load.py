"""From a name or a path to a compressor. Names are those of the programs that ship with the package."""

from __future__ import annotations

import difflib
import os
from importlib import resources
from pathlib import Path

from compll.diagnostics import CompllError, SourceFile
from compll.dsl.limits import MAX_CHARACTERS
from compll.dsl.parameters import parameter_values
from compll.runtime.compressor import Compressor
from compll.runtime.program import Program

SUFFIX = ".cll"


def load(name_or_path: str | os.PathLike[str], /, backend: str = "auto", **params: object) -> Compressor:
    """A compressor, checked and ready to compile for the shapes it meets.

    `name_or_path` is the name of a built-in program or the path of a `.cll` file; `params` are the program's
    parameters. `backend` is auto (the gradient's device: CUDA kernels or CPU kernels), reference, cpu, emulator or
    cuda. Raises CompllError for an unknown name, a faulty program or parameter, a backend that is not there.
    """
    program = Program(read_source(name_or_path))
    values = parameter_values(program.module, params)
    return Compressor(program, values=values, defaults=parameter_values(program.module, {}), backend=backend)


def read_source(name_or_path: str | os.PathLike[str]) -> SourceFile:
    """The text of a built-in program or of a file. Raises CompllError when there is none or it is not UTF-8 text."""
    if not isinstance(name_or_path, (str, os.PathLike)):
        raise CompllError(f"a program needs a name or a path, got {type(name_or_path).__name__}")
    text = os.fspath(name_or_path)
    if text.endswith(SUFFIX) or os.sep in text:
        return _read_file(Path(text))
    if text not in built_in_names():
        raise CompllError(_unknown(text))
    resource = resources.files("compll.algorithms") / f"{text}{SUFFIX}"
    return SourceFile(f"algorithms/{text}{SUFFIX}", resource.read_text(encoding="utf-8"))


def built_in_names() -> tuple[str, ...]:
    """The names that `load` knows without a path, sorted."""
    entries = resources.files("compll.algorithms").iterdir()
    return tuple(sorted(e.name.removesuffix(SUFFIX) for e in entries if e.name.endswith(SUFFIX)))


def _read_file(path: Path) -> SourceFile:
    try:
        with path.open(encoding="utf-8-sig") as file:  # editors on Windows put a mark before the text
            text = file.read(MAX_CHARACTERS + 1)
    except UnicodeDecodeError:
        raise CompllError(f"`{path}` needs to be UTF-8 text, got other bytes") from None
    except ValueError:  # a zero character in the name
        raise CompllError(f"no file can be called {str(path)!r}") from None
    except OSError as problem:
        raise CompllError(f"cannot read `{path}`: {(problem.strerror or str(problem)).lower()}") from None
    if len(text) > MAX_CHARACTERS:
        raise CompllError(f"`{path}` needs to have at most {MAX_CHARACTERS} characters, got more")
    return SourceFile(str(path), text)


def _unknown(name: str) -> str:
    known = built_in_names()
    near = difflib.get_close_matches(name, known, n=1)
    guess = f"; did you mean `{near[0]}`?" if near else ""
    return f"no built-in compressor `{name}`{guess} (built in: {', '.join(known)}; or give the path of a `.cll` file)"
