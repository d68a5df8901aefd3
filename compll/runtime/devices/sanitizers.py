"""Running a process under a sanitizer, for the emulator: what has to be in its environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from compll.diagnostics import CompllError

#: By what users ask for: the emulator's check, and the library that must be there before Python is (None: none).
SANITIZERS: dict[str, tuple[str, str | None]] = {
    "race": ("thread", "libtsan.so"),
    "address": ("address", "libasan.so"),
    "undefined": ("undefined", None),
}
TIMEOUT_S = 600
OPTIONS = {
    # Python and torch leak by design, and the emulator moves between stacks
    "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0",
    "TSAN_OPTIONS": "report_thread_leaks=0",
    # OpenMP's own synchronisation cannot be seen by the sanitizers
    "OMP_NUM_THREADS": "1",
}


def run_module(module: str, arguments: Sequence[str], sanitizer: str, *, order: int) -> str:
    """Run a module in a process under a sanitizer, with the emulator's threads in an order (0: first to last, 1: last
    to first, 2: at random); what it complains of, empty for nothing. Raises CompllError as the environment does."""
    environment = {**sanitizer_environment(sanitizer), "EMULATOR_ORDER": str(order)}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=TIMEOUT_S, check=False)
    complaints = done.stderr.strip()
    return complaints or (f"exit status {done.returncode}" if done.returncode else "")


def sanitizer_environment(sanitizer: str) -> dict[str, str]:
    """The environment of a process in which the backend `emulator` reports races, bad accesses or undefined behaviour.

    Raises CompllError when the compiler has no such library.
    """
    check, library = SANITIZERS[sanitizer]
    environment = {**os.environ, **OPTIONS, "COMPLL_EMULATOR_CHECK": check}
    if library is None:
        return environment
    try:
        printed = subprocess.run(["g++", f"-print-file-name={library}"], capture_output=True, text=True, check=False)
    except OSError as problem:
        raise CompllError(f"the emulator needs g++: {problem}") from None
    found = printed.stdout.strip()
    if not os.path.isabs(found):
        raise CompllError(f"looking for {sanitizer} needs {library}, which this g++ does not have")
    return {**environment, "LD_PRELOAD": found}
