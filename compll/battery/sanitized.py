"""Every kernel of a program once under a sanitizer, on the emulator: races and bad accesses of the CUDA text.

Sanitizers must be in a process from its beginning, so the kernels run in processes of their own: `python -m
compll.battery.sanitized NAME PARAMETERS`, one for each order in which the emulator runs threads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import torch

from compll.battery.inputs import Shape, heavy_tailed
from compll.battery.law import KEY, LawResult
from compll.runtime.compressor import Compressor
from compll.runtime.devices.sanitizers import run_module
from compll.runtime.key import Key
from compll.runtime.load import load

SHAPES: tuple[Shape, ...] = ((1,), (1025,), (33, 65))
ORDERS = ("first to last", "last to first", "at random")
NAMES = {"race": "no_race", "address": "no_bad_access", "undefined": "no_undefined_behaviour"}
SHOWN_LINES = 12


def sanitized(source: str, params: Mapping[str, object], sanitizer: str) -> LawResult:
    """The law that the sanitizer, one of SANITIZERS, has nothing to report. Raises CompllError when it is not there."""
    for number, order in enumerate(ORDERS):
        complaints = run_module("compll.battery.sanitized", [source, json.dumps(params)], sanitizer, order=number)
        if complaints:
            shown = "\n".join(complaints.splitlines()[:SHOWN_LINES])
            detail = f"threads {order}: {shown}"
            return LawResult(law=NAMES[sanitizer], backend="emulator", ok=False, detail=detail)
    return LawResult(law=NAMES[sanitizer], backend="emulator", ok=True, detail=f"threads {', '.join(ORDERS)}")


def run_kernels(compressor: Compressor) -> None:
    """Encode twice, then merge what three ranks sent."""
    for shape in SHAPES:
        gradient = heavy_tailed(shape)
        state = compressor.init_state(gradient, key=KEY)
        for step in range(2):
            key = Key(seed=KEY.seed, step=step)
            payload = compressor.encode(heavy_tailed(shape, step), state, key=key)
        compressor.decode_batch([[payload, payload, payload]], [torch.empty(shape)])
        state.join()  # a residual in two parts


if __name__ == "__main__":
    run_kernels(load(sys.argv[1], backend="emulator", **json.loads(sys.argv[2])))
