"""Where functions run: devices by name, and which of them this machine has."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache

import torch

from compll.diagnostics import CompllError
from compll.runtime.devices import cpu, emulator, presence
from compll.runtime.devices.base import Device
from compll.runtime.devices.reference import ReferenceDevice

#: For each device: the reason why it is not there (None: it is), and how it is made.
_DEVICES: dict[str, tuple[Callable[[], str | None], Callable[[], Device]]] = {
    "reference": (lambda: None, ReferenceDevice),
    "cpu": (cpu.available, cpu.CpuDevice),
    "emulator": (cpu.available, emulator.EmulatorDevice),
    "cuda": (presence.cuda_problem, presence.open_cuda),
}

#: Slow devices for authors of kernels: there for those who name them, never chosen or listed as available.
_ON_REQUEST = ("emulator",)


def missing_devices() -> dict[str, str]:
    """The devices that are not there, each with the reason in one line."""
    reasons = {name: reason() for name, (reason, _) in _DEVICES.items()}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def available_devices() -> tuple[str, ...]:
    """The names of the devices that work here; the reference device first."""
    missing = missing_devices()
    return tuple(name for name in _DEVICES if name not in missing and name not in _ON_REQUEST)


def skipped_devices() -> dict[str, str]:
    """The devices that are not among the available ones, each with the reason in a few words."""
    slow = {name: f"slow, only by its name: --backend {name}" for name in _ON_REQUEST}
    return {**slow, **missing_devices()}


def open_device(name: str) -> Device:
    """The device `name`; "auto" is the cpu, or the reference device (with a warning) where nothing can be compiled.

    Raises CompllError for an unknown name or a device that is not there, with the reason.
    """
    if name == "auto":
        return _automatic()
    if name not in _DEVICES:
        raise CompllError(f"backend needs one of auto, {', '.join(_DEVICES)}, got `{name}`")
    return _opened(name)


def device_at(place: torch.device, backend: str, what: str) -> Device:
    """The device that computes on tensors at `place`: the one called `backend`, or for "auto" whichever is for them.

    Raises CompllError, calling the tensors `what`, where the backend does not run on them or is not there.
    """
    on_gpu = place.type == "cuda"
    if not on_gpu and place.type != "cpu":
        raise CompllError(f"{what} need to be on the CPU or a CUDA device, got `{place}`")
    if backend != "auto" and (backend == "cuda") != on_gpu:
        need = "CUDA tensors" if backend == "cuda" else "CPU tensors"
        way = "'auto' or 'cuda'" if on_gpu else "'auto', 'cpu' or 'reference'"
        raise CompllError(f"backend={backend!r} needs {need}, {what} are on `{place}`: take {way}")
    return open_device("cuda" if on_gpu else backend)


@cache
def _opened(name: str) -> Device:
    reason, make = _DEVICES[name]
    problem = reason()
    if problem is not None:
        raise CompllError(f"backend `{name}` is not there: {problem}")
    return make()


@cache
def _automatic() -> Device:
    problem = cpu.available()
    if problem is None:
        return _opened("cpu")
    warnings.warn(f"compll runs on the slow reference backend: {problem}", RuntimeWarning, stacklevel=3)
    return _opened("reference")
