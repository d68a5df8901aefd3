"""Which gradients a model has, which of them are compressed, and where each lies in a DDP bucket.

State is keyed by parameter name and never by bucket: DDP re-forms its buckets after the first step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from compll.diagnostics import CompllError, UnsupportedError
from compll.runtime.program import GRADIENT_DTYPES

PROBE = 1024  # elements looked at before a whole gradient is searched for anything but zeros


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientSpec:
    """One parameter's gradient; `index` is its position in `named_parameters()` order, frozen parameters included.

    `contiguous`: its memory is in logical order (a channels_last weight's is not).
    """

    name: str
    index: int
    shape: torch.Size
    dtype: torch.dtype
    compressible: bool
    contiguous: bool = True

    @property
    def nbytes(self) -> int:
        return self.shape.numel() * self.dtype.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A gradient inside a bucket: `tensor` is a view with the parameter's shape, in the parameter's memory format."""

    spec: GradientSpec
    tensor: torch.Tensor


GradientTable = Mapping[torch.Tensor, GradientSpec]


def gradient_table(module: nn.Module, min_numel: int, ignored: Iterable[str] = ()) -> dict[torch.Tensor, GradientSpec]:
    """The gradients that will be synchronised, by parameter. `ignored` are the names that DDP leaves alone.

    Raises CompllError for one with sparse gradients, UnsupportedError for complex ones.
    """
    skipped = frozenset(ignored)
    _refuse_sparse(module)
    table: dict[torch.Tensor, GradientSpec] = {}
    for index, (name, parameter) in enumerate(module.named_parameters()):
        if not parameter.requires_grad or name in skipped:
            continue
        if parameter.is_complex():
            raise UnsupportedError(
                f"parameter `{name}` is of {parameter.dtype}, whose gradients DDP hands to a hook by halves: keep it "
                "as real numbers, and make them complex in forward (torch.view_as_complex)"
            )
        large = _is_large(parameter.shape, min_numel)
        table[parameter] = GradientSpec(
            name=name,
            index=index,
            shape=parameter.shape,
            dtype=parameter.dtype,
            compressible=large and parameter.dtype in GRADIENT_DTYPES,
            contiguous=parameter.is_contiguous(),
        )
    return table


def left_out(specs: Iterable[GradientSpec], min_numel: int) -> str:
    """The gradients that would be compressed if their dtype were another; empty where there are none."""
    large = (spec for spec in specs if _is_large(spec.shape, min_numel))
    names = [f"`{spec.name}` ({spec.dtype})" for spec in large if not spec.compressible]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _is_large(shape: torch.Size, min_numel: int) -> bool:
    """Whether compressing it may pay, whatever its dtype."""
    return len(shape) >= 2 and shape.numel() >= max(min_numel, 1)


def _refuse_sparse(module: nn.Module) -> None:
    for name, child in module.named_modules():
        if isinstance(child, (nn.Embedding, nn.EmbeddingBag)) and child.sparse and child.weight.requires_grad:
            weight = f"{name}.weight" if name else "weight"
            raise CompllError(
                f"parameter `{weight}` has sparse gradients, which compll does not synchronise: make the embedding "
                "with sparse=False, or take it out of DDP"
            )


def cut_bucket(
    buffer: torch.Tensor, gradients: Iterable[torch.Tensor], parameters: Iterable[torch.Tensor], table: GradientTable
) -> Iterator[Slice]:
    """A bucket's gradients in bucket order.

    DDP hands out `gradients` flat in *memory* order under the parameter's sizes; where the parameter is dense in
    another order (channels_last), the view takes the parameter's strides, as DDP's own does.
    """
    for gradient, parameter in zip(gradients, parameters, strict=True):
        spec = table.get(parameter)
        if spec is None:
            raise CompllError(
                f"a gradient of shape {tuple(parameter.shape)} came up that the model did not have when SyncState was "
                "made; make SyncState after the last change of the model"
            )
        if not parameter.is_contiguous() and _is_dense(parameter):
            gradient = buffer.as_strided(parameter.shape, parameter.stride(), gradient.storage_offset())
        yield Slice(spec=spec, tensor=gradient)


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill their memory without gaps or overlaps, in whatever order."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    order = sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1)
    expected = 1
    for stride, size in order:
        if stride != expected:
            return False
        expected *= size
    return extent == tensor.numel()


def which_are_zero(gradients: Sequence[torch.Tensor]) -> list[bool]:
    """Whether every element is zero, which is how a rank without a gradient appears. On a GPU the host waits, once."""
    if gradients and gradients[0].device.type == "cuda":
        return _all_at_once(gradients)
    return [_is_zero(gradient.reshape(-1)) for gradient in gradients]


def _all_at_once(gradients: Sequence[torch.Tensor]) -> list[bool]:
    zero: list[bool] = torch.stack([gradient.any() for gradient in gradients]).logical_not_().tolist()
    return zero


def _is_zero(flat: torch.Tensor) -> bool:
    return not bool(flat[:PROBE].any()) and not bool(flat[PROBE:].any())
