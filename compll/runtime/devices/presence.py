"""Whether this machine can run CUDA kernels, found out without importing CuPy where there is no GPU.

`cuda.py` imports CuPy and therefore is imported from here only, when it is wanted.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import torch

from compll.runtime.devices.base import Device

_DOOR = "compll.runtime.devices.cuda"


def cuda_problem() -> str | None:
    """None where CUDA kernels can be compiled and run, else the reason in one line."""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return "torch finds no CUDA device, or no driver for it"
    if find_spec("cupy") is None:
        return "CuPy is not installed; `pip install 'compll[cuda]'` brings it"
    try:
        reason: str | None = import_module(_DOOR).available()
    except ImportError as problem:
        return f"CuPy cannot be imported: {problem}"
    return reason


def open_cuda() -> Device:
    """The CUDA device; only where `cuda_problem` finds none."""
    device: Device = import_module(_DOOR).CudaDevice()
    return device
