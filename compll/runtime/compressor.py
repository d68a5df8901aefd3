"""A compiled compressor: encode a gradient to bytes, decode bytes to a gradient. Knows no process group.

What is known before there is a gradient lives in `specialized`, what is worked out per shape and dtype in `program`,
what runs in `devices`. Results go through f32 and are rounded once to the dtype asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

import compll
from compll.codegen.feedback_form import LAZY
from compll.diagnostics import CompllError
from compll.runtime import arguments, operators
from compll.runtime.batch import Item, run_batch
from compll.runtime.buffers import encode_arrays, new_payload, out_buffer
from compll.runtime.checks import (
    check_bytes,
    check_dense,
    check_device,
    check_float,
    check_held,
    check_kind,
    check_shape,
    check_tensor,
)
from compll.runtime.encoding import Encoding
from compll.runtime.handles import content_handle
from compll.runtime.key import Key
from compll.runtime.merging import Merger
from compll.runtime.payload import Payload
from compll.runtime.program import Program, Sized, Values
from compll.runtime.rounds import Rounds
from compll.runtime.specialized import Specialized
from compll.runtime.state import Previous, State


class Compressor(Specialized):
    """One program with its parameter values. Made by `compll.load`; immutable, usable from several threads.

    Shapes and dtypes of gradients may differ from call to call. Gradients are f32, f16 or bf16 tensors; what is
    flattened is their logical (row-major) order, whatever the memory format.

    `encode`, `payload` and `decode` may be called in what torch.compile compiles, without a break in the graph.
    `handle` is what operators call this compressor; it lives as long as a compressor that does the same.
    """

    def __init__(
        self, program: Program, *, values: Values, defaults: Values, backend: str = "auto", feedback: bool | None = None
    ) -> None:
        super().__init__(program, values=values, defaults=defaults, backend=backend, feedback=feedback)
        contents = (compll.__version__, program.source_hash, self._values, backend, feedback)
        self.handle = content_handle(program.name, *contents)
        self._found_by_handle = operators.compressors.register(self.handle, self)

    # --- one gradient ------------------------------------------------------------------------------------------------

    def init_state(self, grad: torch.Tensor, key: Key | None = None) -> State:
        """The residual (zeros) and the program's states before the first step, on the gradient's device."""
        check_tensor(grad, "grad")
        key = arguments.key_of(key)
        sized = self.sized(grad.shape, grad.dtype)
        device = self._device(grad)
        residual = torch.zeros(grad.shape, dtype=torch.float32, device=grad.device) if self.feedback else None
        states = {s.name: torch.zeros(s.shape, dtype=s.dtype, device=grad.device) for s in sized.states}
        for layout in sized.states:
            if layout.initial is not None and sized.numel:
                arrays = {f"state_{layout.name}": states[layout.name]}
                run_batch(self._program, device, layout.initial, [Item(sized, arrays, key)])
        return State(residual=residual, states=states, previous=self._previous(sized, grad))

    def encode(
        self, grad: torch.Tensor, state: State | None = None, key: Key | None = None, out: torch.Tensor | None = None
    ) -> Payload:
        """Compress; with feedback, of gradient plus residual. Updates `state` in place (None: the initial one).

        `out` is a 1-D uint8 tensor of `payload_bytes(grad.shape, grad.dtype)` bytes to write to; without it the buffer
        is fresh. Raises CompllError when shape, dtype or device of an argument is another than needed.
        """
        if torch.compiler.is_dynamo_compiling():
            return operators.traced_encode(self, grad, state, key or Key(), out)
        key = arguments.key_of(key)
        states = [self.init_state(grad, key) if state is None else state]
        return self.encode_batch([grad], states, [key], None if out is None else [out])[0]

    def payload(self, buffer: torch.Tensor | bytes, like: torch.Tensor, key: Key | None = None) -> Payload:
        """Bytes from elsewhere as a payload; `key` is the sender's, which shared draws in decode use.

        Raises CompllError when `buffer` is not 1-D uint8 of exactly the length that `like` needs. What the bytes say
        is never an error: counts are clamped, indices beyond the gradient dropped.
        """
        if not isinstance(buffer, torch.Tensor):
            check_kind(buffer, (bytes, bytearray, memoryview), "buffer", "a tensor or bytes")
            buffer = torch.tensor(list(buffer), dtype=torch.uint8)
        if not torch.compiler.is_dynamo_compiling():  # there, the operator that decodes checks
            check_tensor(like, "like")
            key = arguments.key_of(key)
            check_bytes(buffer, self.payload_bytes(like.shape, like.dtype), like.device, owner=self.name)
        return Payload(buffer=buffer, shape=like.shape, dtype=like.dtype, key=key or Key())

    def decode(
        self, payload: Payload, like: torch.Tensor | None = None, out: torch.Tensor | None = None, add: bool = False
    ) -> torch.Tensor:
        """The gradient that a payload stands for, in the shape and dtype of `like` (default: the payload's own).

        With `out` it is written there (any float dtype), with `add` as well it is added to what `out` holds; one
        rounding in either case. Raises CompllError when shapes or lengths do not agree.
        """
        if not torch.compiler.is_dynamo_compiling():
            arguments.check_payload(payload)
            arguments.check_flag(add, "add")
            for what, given in (("like", like), ("out", out)):
                check_kind(given, (torch.Tensor, type(None)), what, "a tensor or None")
        if out is None:
            if add:
                raise CompllError("decode: `add` needs `out`, the tensor to add to")
            shape, dtype = (payload.shape, payload.dtype) if like is None else (like.shape, like.dtype)
            out = torch.empty(shape, dtype=dtype, device=payload.buffer.device)
        check_shape(out, payload.shape, "out")
        check_float(out, "out")
        if torch.compiler.is_dynamo_compiling():
            operators.traced_decode(self, payload, out, add=add)
        else:
            self.decode_batch([[payload]], [out], add=add, mean=False)
        return out

    # --- what operators need -----------------------------------------------------------------------------------------

    def join_other_form(self, state: State) -> None:
        """Join a residual whose second part was made with other parameters."""
        if state.previous is not None and state.previous.values != self._values:
            state.join()
            state.previous = None

    def state_of(self, grad: torch.Tensor, parts: Sequence[torch.Tensor]) -> State:
        """The state that `State.parts` was called on, or one without the second part of the residual."""
        sized = self.sized(grad.shape, grad.dtype)
        names = sorted(layout.name for layout in sized.states)
        count = len(parts) - len(names)
        if not 0 <= count <= 2 or (count == 2 and sized.compilation.feedback_function != LAZY):
            raise CompllError(f"compressor `{self.name}` got {len(parts)} tensors, which are no parts of its state")
        states = dict(zip(names, parts[count:], strict=True))
        previous = self._previous_of(parts[1], grad.dtype) if count == 2 else None
        return State(residual=parts[0] if count else None, states=states, previous=previous)

    def form_residual(self, held: torch.Tensor, payload: torch.Tensor, dtype: torch.dtype) -> None:
        """Subtract in place what the payload of a gradient of `dtype` stands for."""
        out = torch.empty_like(held)
        arrays = {"residual": held.view(-1), "previous": payload, "out": out.view(-1)}
        item = Item(self.sized(held.shape, dtype), arrays, Key())
        run_batch(self._program, self._device(held), "lazy_residual", [item])
        held.copy_(out)

    # --- batches -----------------------------------------------------------------------------------------------------

    def encode_batch(
        self,
        grads: Sequence[torch.Tensor],
        states: Sequence[State],
        keys: Sequence[Key],
        outs: Sequence[torch.Tensor] | None = None,
        *,
        threads: int | None = None,
    ) -> list[Payload]:
        """`encode` of several gradients in as few launches as possible."""
        arguments.check_threads(threads)
        encoding = self._encoding(grads, states, keys, outs)
        encoding.run(threads)
        return list(encoding.payloads)

    def encode_rounds(
        self,
        grads: Sequence[torch.Tensor],
        states: Sequence[State],
        keys: Sequence[Key],
        outs: Sequence[torch.Tensor] | None = None,
        *,
        threads: int | None = None,
    ) -> Rounds:
        """`encode_batch` for a runtime with a network: the caller makes the means over all ranks, see `Rounds`.

        A program without collectives yields nothing. One that is `replicated` has the result itself in its payload,
        the same on every rank after the last round: nothing is left to exchange, every rank decodes its own payload,
        alone, and has the mean over all ranks. Other payloads travel as those of `encode`.
        """
        arguments.check_threads(threads)
        encoding = self._encoding(grads, states, keys, outs)
        return Rounds(encoding.payloads, encoding.rounds(threads))

    def decode_batch(
        self,
        payloads: Sequence[Sequence[Payload | None]],
        outs: Sequence[torch.Tensor],
        *,
        add: bool = False,
        mean: bool = True,
        threads: int | None = None,
    ) -> None:
        """Into `outs`, for each gradient the sum of its payloads in rank order (None: that rank has no gradient).

        `mean` divides the sum once by the number of ranks, those without a gradient included. `add` starts from what
        `outs` hold. Sums are in f32 and rounded once.
        """
        arguments.check_threads(threads)
        arguments.check_decoded(payloads, outs)
        if outs:
            device = self._device(outs[0])
            merger = Merger(program=self._program, device=device, sized=self.sized, threads=threads)
            merger.merge(payloads, outs, add=add, mean=mean)

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _encoding(
        self,
        grads: Sequence[torch.Tensor],
        states: Sequence[State],
        keys: Sequence[Key],
        outs: Sequence[torch.Tensor] | None,
    ) -> Encoding:
        """Check and gather what an encode of these gradients reads and writes."""
        arguments.check_encoded(grads, states, keys, outs)
        into: Sequence[torch.Tensor | None] = outs or [None] * len(grads)
        payloads, items = [], []
        for grad, state, key, out in zip(grads, states, keys, into, strict=True):
            check_dense(grad, "grad")
            check_device(grad, grads[0].device, "grad")
            sized = self.sized(grad.shape, grad.dtype)
            self._settle(sized, grad, state)
            payload = new_payload(out_buffer(self.name, sized, grad, out), grad, key)
            arrays = {**encode_arrays(sized, grad, payload), **self._state_arrays(sized, grad, state)}
            payloads.append(payload)
            items.append(Item(sized, arrays, key))
        return Encoding(
            program=self._program, device=lambda: self._device(grads[0]), feedback=self.feedback, items=items,
            states=states, payloads=payloads,
        )  # fmt: skip

    def _settle(self, sized: Sized, grad: torch.Tensor, state: State) -> None:
        """Bring a state into the form that this program and these parameters keep feedback in."""
        if self.feedback and state.held is not None:
            self.join_other_form(state)
            if state.previous is None:
                state.previous = self._previous(sized, grad)

    def _previous(self, sized: Sized, grad: torch.Tensor) -> Previous | None:
        """The second part of the residual, where the program's feedback has one and a zero payload says nothing."""
        if not self.feedback or not sized.numel or sized.compilation.feedback_function != LAZY:
            return None
        payload = torch.zeros(sized.payload_nbytes, dtype=torch.uint8, device=grad.device)
        return self._previous_of(payload, grad.dtype)

    def _previous_of(self, payload: torch.Tensor, dtype: torch.dtype) -> Previous:
        return Previous(payload=payload, form=partial(operators.joined, self, dtype), values=self._values)

    def _state_arrays(self, sized: Sized, grad: torch.Tensor, state: State) -> dict[str, torch.Tensor]:
        arrays = {}
        if self.feedback:
            if state.held is None:
                raise CompllError(f"compressor `{self.name}` needs a state with a residual, got one without")
            check_held(state.held, grad.shape, torch.float32, grad.device, "residual")
            arrays["residual"] = state.held.view(-1)
            if state.previous is not None:
                arrays["previous"] = state.previous.payload
        for layout in sized.states:
            if layout.name not in state.states:
                raise CompllError(f"compressor `{self.name}` needs a state `{layout.name}`, got {sorted(state.states)}")
            held = state.states[layout.name]
            check_held(held, layout.shape, layout.dtype, grad.device, f"state {layout.name}")
            arrays[f"state_{layout.name}"] = state.states[layout.name]
        return arrays
