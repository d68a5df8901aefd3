"""A program with its parameter values: what is known of it before there is a gradient. Encodes nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Self

import torch

from compll.codegen import ir
from compll.diagnostics import CompllError
from compll.dsl.parameters import parameter_values
from compll.runtime.arguments import check_flag, shape_of
from compll.runtime.checks import check_kind, check_tensor
from compll.runtime.devices import device_at, open_device
from compll.runtime.devices.base import Device
from compll.runtime.program import Program, SectionLayout, Sized, Values, reduces_inside

BACKENDS = ("auto", "reference", "cpu", "emulator", "cuda")


class Specialized:
    """What a Compressor is; immutable. Sizes are worked out once for each shape and dtype of gradients."""

    def __init__(
        self, program: Program, *, values: Values, defaults: Values, backend: str = "auto", feedback: bool | None = None
    ) -> None:
        if backend not in BACKENDS:
            raise CompllError(f"backend needs one of {', '.join(BACKENDS)}, got `{backend}`")
        self._program = program
        self._values = dict(values)
        self._defaults = dict(defaults)
        self._feedback = feedback
        self._sizes: dict[tuple[torch.Size, torch.dtype], Sized] = {}
        self.backend = backend
        if backend != "auto":
            open_device(backend)  # say at once when it is not there

    @property
    def name(self) -> str:
        return self._program.name

    @property
    def params(self) -> dict[str, float | int | bool]:
        """Every parameter's value."""
        return dict(self._values)

    @property
    def source_hash(self) -> str:
        """SHA-256 of the program's text, in hexadecimal."""
        return self._program.source_hash

    @cached_property
    def at_any_shape(self) -> ir.Program:
        """What is the same at every shape: traits, feedback, collectives, names."""
        return self._program.at_any_shape(self._values, self._defaults)

    @property
    def traits(self) -> frozenset[str]:
        """The traits that hold for these parameter values."""
        return frozenset(self.at_any_shape.traits)

    @property
    def feedback(self) -> bool:
        """Whether encode keeps what it did not send in a residual."""
        return self.at_any_shape.feedback if self._feedback is None else self._feedback

    @property
    def keeps_states(self) -> bool:
        """Whether the program has states of its own beside the residual."""
        return bool(self.at_any_shape.states)

    @property
    def reduces_inside(self) -> bool:
        """Whether encode has a collective of its own; alone, that is the identity."""
        return reduces_inside(self.at_any_shape)

    @property
    def replicated(self) -> bool:
        """Whether encode in rounds ends with one result on all ranks, so that no payload has to travel."""
        return self.reduces_inside and not self.at_any_shape.fields

    def with_params(self, **params: object) -> Self:
        """The same program with some parameters changed. Raises CompllError as `load` does."""
        values = parameter_values(self._program.module, {**self._values, **params})
        return type(self)(
            self._program, values=values, defaults=self._defaults, backend=self.backend, feedback=self._feedback
        )

    def with_feedback(self, feedback: bool) -> Self:
        """The same program with error feedback on or off, whatever it declares."""
        check_flag(feedback, "feedback")
        return type(self)(
            self._program, values=self._values, defaults=self._defaults, backend=self.backend, feedback=feedback
        )

    def payload_bytes(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> int:
        """The size of every payload of a gradient of this shape; it never depends on data."""
        return self.sized(shape, dtype).payload_nbytes

    def sized(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Sized:
        """The compilation, environment, sections and states for a shape."""
        key = (shape_of(shape), dtype)
        check_kind(dtype, torch.dtype, "dtype", "a torch.dtype")
        if key not in self._sizes:
            self._sizes[key] = self._program.sized(*key, self._values, self._defaults)
        return self._sizes[key]

    def sections(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> tuple[SectionLayout, ...]:
        """The payload's typed sections; empty for a gradient without elements."""
        return self.sized(shape, dtype).sections

    def compile(self, grad: torch.Tensor) -> None:
        """Compile and load now what encode and decode of such a gradient need, and not at their first call."""
        check_tensor(grad, "grad")
        compilation = self.sized(grad.shape, grad.dtype).compilation
        encoders = [f.name for f in compilation.program.functions if f.name.startswith("encode")]
        unused = {*encoders} - {compilation.feedback_function if self.feedback else "encode"}
        for function in compilation.program.functions:
            if function.name not in unused:
                self._program.function(self._device(grad), compilation, function.name)

    def round_sizes(self, grad: torch.Tensor) -> tuple[int, ...]:
        """How many f32 elements each round of `encode_rounds` reduces for such a gradient; compiles what is needed."""
        check_tensor(grad, "grad")
        sized = self.sized(grad.shape, grad.dtype)
        function = sized.compilation.feedback_function if self.feedback else "encode"
        return self._program.round_sizes(self._device(grad), sized, function)

    def __repr__(self) -> str:
        params = "".join(f", {name}={value!r}" for name, value in self._values.items())
        return f"compll.load({self.name!r}, backend={self.backend!r}{params})"

    def _device(self, tensor: torch.Tensor) -> Device:
        return device_at(tensor.device, self.backend, f"tensors for `{self.name}`")
