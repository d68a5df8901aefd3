"""Data that is there without a download. Only the starting process loads it; workers get the tensors."""

from __future__ import annotations

import gzip
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

from compll.cli.training.tasks import CONTEXT, Dataset
from compll.diagnostics import CompllError

FASHION_FOLDERS = tuple(Path(prefix, "share/datasets/fashion-mnist") for prefix in ("/usr", "/usr/local", sys.prefix))


def digits() -> Dataset:
    """scikit-learn's 1797 handwritten digits of 8 x 8; a fifth is held out, always the same."""
    data = load_digits()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(0))
    return _split(torch.from_numpy(data.data).to(torch.uint8)[order], torch.from_numpy(data.target)[order])


def fashion_mnist() -> Dataset:
    """Fashion-MNIST (Xiao et al. 2017) from the files of Debian's package; CompllError without them."""
    folder = next((f for f in FASHION_FOLDERS if f.is_dir()), None)
    if folder is None:
        places = ", ".join(map(str, FASHION_FOLDERS))
        raise CompllError(f"fashion-mnist needs its files in one of {places}: apt install dataset-fashion-mnist")
    return Dataset(
        train_inputs=_idx(folder, "train-images-idx3-ubyte"),
        train_targets=_idx(folder, "train-labels-idx1-ubyte").long(),
        test_inputs=_idx(folder, "t10k-images-idx3-ubyte"),
        test_targets=_idx(folder, "t10k-labels-idx1-ubyte").long(),
    )


def text() -> Dataset:
    """Windows of the source text of Python's standard library, each with the character that follows."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    codes = np.frombuffer(b"".join(f.read_bytes() for f in files)[:1_500_000], dtype=np.uint8)
    # printable ASCII is 1..95; everything else, line ends above all, is 0
    known = np.where((codes >= 32) & (codes < 127), codes - 31, 0).astype(np.uint8)
    characters = torch.from_numpy(known)
    cut = len(characters) * 9 // 10
    train, test = characters[:cut], characters[cut : cut + 20_000]
    return Dataset(
        train_inputs=train[:-1].unfold(0, CONTEXT, 1), train_targets=train[CONTEXT:].long(),
        test_inputs=test[:-1].unfold(0, CONTEXT, 1), test_targets=test[CONTEXT:].long(),
    )  # fmt: skip


def _split(inputs: Tensor, targets: Tensor) -> Dataset:
    held_out = len(targets) // 5
    return Dataset(
        train_inputs=inputs[held_out:], train_targets=targets[held_out:],
        test_inputs=inputs[:held_out], test_targets=targets[:held_out],
    )  # fmt: skip


def _idx(folder: Path, name: str) -> Tensor:
    """The array of one IDX file, plain or gzipped: bytes 0, 0, 8 and the number of axes, their lengths, u8 data."""
    plain, packed = folder / name, folder / f"{name}.gz"
    try:
        raw = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
    except OSError as problem:
        raise CompllError(f"fashion-mnist needs `{packed}`: {problem.strerror}") from None
    axes = raw[3]
    shape = np.frombuffer(raw, dtype=">i4", count=axes, offset=4)
    return torch.from_numpy(np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape).copy())


LOADERS: dict[str, Callable[[], Dataset]] = {"digits": digits, "fashion-mnist": fashion_mnist, "text": text}
