"""Which gradients are compressed, and where they lie in a bucket whatever the memory format."""

import pytest
import torch
from torch import nn

from compll import CompllError, UnsupportedError
from compll.runtime.gradients import PROBE, _all_at_once, cut_bucket, gradient_table, left_out, which_are_zero


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Parameter(torch.zeros(64, 64), requires_grad=False)
        self.scalar = nn.Parameter(torch.zeros(()))
        self.vector = nn.Parameter(torch.zeros(5000))
        self.small = nn.Parameter(torch.zeros(31, 33))
        self.large = nn.Parameter(torch.zeros(32, 32))
        self.wide = nn.Parameter(torch.zeros(64, 64, dtype=torch.float64))
        self.tied = self.large
        self.empty = nn.Parameter(torch.zeros(0, 7))
        self.skipped = nn.Parameter(torch.zeros(64, 64))


def test_table_names_indexes_and_choices() -> None:
    specs = gradient_table(Model(), 1024, ["skipped"]).values()
    assert [(s.index, s.name, s.compressible) for s in specs] == [
        (1, "scalar", False),
        (2, "vector", False),
        (3, "small", False),
        (4, "large", True),
        (5, "wide", False),
        (6, "empty", False),
    ]


def test_empty_gradients_are_dense_even_with_min_numel_0() -> None:
    specs = gradient_table(Model(), 0).values()
    assert {s.name for s in specs if s.compressible} == {"small", "large", "skipped"}


def test_what_is_large_but_of_another_dtype_is_named() -> None:
    specs = gradient_table(Model(), 1024).values()
    assert left_out(specs, 1024) == "`wide` (torch.float64)"
    five = nn.ParameterList(nn.Parameter(torch.zeros(4, 4, dtype=torch.float64)) for _ in range(5))
    assert left_out(gradient_table(five, 1).values(), 1).endswith("`2` (torch.float64) and 2 more")
    assert left_out(gradient_table(nn.Linear(64, 64), 1024).values(), 1024) == ""


def test_complex_parameters_are_refused_by_name() -> None:
    """DDP's bucket has twice as many real numbers, of which a hook is told the first half."""
    model = nn.ParameterDict({"turned": nn.Parameter(torch.zeros(4, 4, dtype=torch.complex64))})
    with pytest.raises(UnsupportedError, match="parameter `turned` is of torch.complex64, .*torch.view_as_complex"):
        gradient_table(model, 1024)
    model.requires_grad_(False)
    assert gradient_table(model, 1024) == {}


def test_sparse_embedding_is_refused_by_name() -> None:
    model = nn.Sequential(nn.Embedding(10, 4), nn.Embedding(10, 4, sparse=True))
    with pytest.raises(CompllError, match="parameter `1.weight` has sparse gradients"):
        gradient_table(model, 1024)


def test_slices_are_logical_views_of_the_bucket() -> None:
    """The buffer holds each gradient in its parameter's memory order, as DDP fills it."""
    plain = nn.Parameter(torch.zeros(3, 4))
    last = nn.Parameter(torch.zeros(2, 3, 4, 5).contiguous(memory_format=torch.channels_last))
    model = nn.ParameterDict({"plain": plain, "last": last})
    wanted = {"plain": torch.randn(3, 4), "last": torch.randn(2, 3, 4, 5)}
    buffer = torch.cat([wanted["last"].permute(0, 2, 3, 1).reshape(-1), wanted["plain"].reshape(-1)])
    handed_out = [buffer[:120].view(2, 3, 4, 5), buffer[120:].view(3, 4)]
    slices = list(cut_bucket(buffer, handed_out, [last, plain], gradient_table(model, 1)))
    for piece in slices:
        assert torch.equal(piece.tensor, wanted[piece.spec.name])
        piece.tensor.fill_(7.0)
    assert buffer.eq(7.0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_zero_everywhere_is_none(dtype: torch.dtype) -> None:
    """One by one, as on the CPU, and all at once, as on a GPU."""
    smallest = torch.finfo(dtype).smallest_normal / 4
    gradients = [torch.zeros(3 * PROBE, dtype=dtype) for _ in range(6)]
    gradients[1][0], gradients[2][-1] = 1, torch.nan
    gradients[3][PROBE], gradients[4][PROBE - 1] = smallest, -0.0
    gradients[5] = torch.ones(4, 5, dtype=dtype).t()
    expected = [True, False, False, False, True, False]
    assert which_are_zero(gradients) == _all_at_once(gradients) == expected
    assert which_are_zero([]) == []
