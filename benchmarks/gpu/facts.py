"""What the figures of a report depend on: the card, the driver, versions, the commit."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from datetime import date
from importlib import metadata
from pathlib import Path

import torch

import compll

ROOT = Path(compll.__file__).parents[1]
DISTRIBUTIONS = ("torch", "cupy-cuda13x", "cupy-cuda12x", "nvidia-cuda-nvrtc", "numpy")


def facts(device: torch.device) -> dict[str, str]:
    """By name; every value is text."""
    found = {"date": date.today().isoformat(), "card": card(device), "commit": _commit(), "compll": compll.__version__}
    return found | dict(_machine(device)) | dict(_versions())


def card(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "emulator"


def _machine(device: torch.device) -> Iterator[tuple[str, str]]:
    yield "python", platform.python_version()
    if device.type != "cuda":
        return
    properties = torch.cuda.get_device_properties(device)
    yield "compute capability", f"{properties.major}.{properties.minor}"
    yield "multiprocessors", str(properties.multi_processor_count)
    yield "memory", f"{properties.total_memory / 1e9:.1f} GB"
    yield "CUDA of torch", str(torch.version.cuda)
    yield "driver", _answer("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")


def _versions() -> Iterator[tuple[str, str]]:
    for name in DISTRIBUTIONS:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue


def _commit() -> str:
    commit = _answer("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    changed = _answer("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no", "--", "compll")
    return f"{commit} and changes" if changed not in ("", "unknown") else commit


def _answer(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"
