"""Strategies where gradients are not on the host: they make no tensor there, copy none from there but by `uploaded`,
and what the host reads it reads as a list. On torch's meta tensors, which have no memory; kernels do nothing here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import compll
from compll import Compressor
from compll.runtime import envelope
from compll.runtime.codec import Codec
from compll.runtime.envelope import WHOLE
from compll.runtime.following import Following
from compll.runtime.gradients import GradientSpec, Slice
from compll.runtime.options import ParameterSchedule
from compll.runtime.payload import Payload
from compll.runtime.plan import Plan
from compll.runtime.rounds import Rounds
from compll.runtime.scheduled import ScheduledCompressor
from compll.runtime.states import States
from compll.runtime.strategies import Context, agreement, rounds
from compll.runtime.tasks import Kind

GPU = torch.device("meta")  # it stands for one
RANKS = 2
SHAPES = {"first": (300, 40), "second": (7, 5, 3, 3), "bias": (30,)}
WAYS = [
    ("topk", "allgather"), ("randomk", "allreduce"), ("onebit", "ps"), ("randomk", "ps"), ("onebit", "ring"),
    ("dgc", "ring"), ("randomk", "ring"), ("terngrad", "hierarchical"), ("powersgd", "rounds"), ("topk", "dense"),
    ("topk", "dense-bf16"),
]  # fmt: skip


@dataclass
class FakeCollectives:
    """Takes tensors of the GPU only."""

    rank: int = 0
    world_size: int = RANKS
    bytes_sent: int = 0
    device: torch.device = GPU
    taken: list[str] = field(default_factory=list)

    def _take(self, name: str, *tensors: torch.Tensor) -> FakeCollectives:
        assert all(tensor.device == GPU and tensor.is_contiguous() for tensor in tensors), name
        self.taken.append(name)
        return self

    def all_gather(self, output: torch.Tensor, source: torch.Tensor, done: Callable[[], None]) -> Any:
        assert output.numel() == RANKS * source.numel()
        return self._take("all_gather", output, source)

    def all_reduce(self, tensors: Sequence[torch.Tensor], done: Callable[[], None]) -> Any:
        return self._take("all_reduce", *tensors)

    def all_to_all(
        self, output: torch.Tensor, received: Sequence[int], source: torch.Tensor, sent: Sequence[int],
        done: Callable[[], None],
    ) -> Any:  # fmt: skip
        assert output.numel() == sum(received) and source.numel() == sum(sent)
        return self._take("all_to_all", output, source)

    def shift(self, output: torch.Tensor, source: torch.Tensor, done: Callable[[], None]) -> Any:
        return self._take("shift", output, source)

    def wait(self) -> None: ...


class NoHostTensors(TorchDispatchMode):
    """Every operation takes tensors of the GPU and makes such."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in tree_leaves((args, kwargs, result)):
            assert not isinstance(each, torch.Tensor) or each.device == GPU, f"{func} on {each.device}"
        return result


def read(tensor: torch.Tensor) -> Any:
    """What `tolist` gives where everything went well."""
    if tensor.dim():
        return [read(row) for row in tensor.unbind()]
    values = {torch.uint8: WHOLE, torch.float32: float(RANKS), torch.bool: True}
    return values[tensor.dtype]


def encoded(
    self: Compressor, grads: Sequence[torch.Tensor], states: Any, keys: Any, outs: Any, *, threads: Any = None
) -> list[Payload]:
    assert all(tensor.device == GPU for tensor in (*grads, *outs))
    finite = torch.ones(1, dtype=torch.bool, device=GPU)
    return [
        Payload(buffer=out, shape=grad.shape, dtype=grad.dtype, key=key, reports=(finite, finite.int()))
        for grad, key, out in zip(grads, keys, outs, strict=True)
    ]


def in_rounds(self: Compressor, grads: Any, states: Any, keys: Any, outs: Any, *, threads: Any = None) -> Rounds:
    payloads = encoded(self, grads, states, keys, outs)
    return Rounds(payloads, iter([[torch.zeros(8, device=GPU) for _ in grads]] * 2))


def decoded(self: Compressor, rows: Any, outs: Any, **options: Any) -> None:
    assert all(out.device == GPU for out in outs)
    assert all(payload is None or payload.buffer.device == GPU for row in rows for payload in row)


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def uploaded(numbers: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(len(numbers), dtype=dtype, device=device)

    for module in (envelope, agreement, rounds):
        monkeypatch.setattr(module, "uploaded", uploaded)
    monkeypatch.setattr(torch.Tensor, "tolist", read)
    for name, fake in (("encode_batch", encoded), ("encode_rounds", in_rounds), ("decode_batch", decoded)):
        monkeypatch.setattr(Compressor, name, fake)
    for name in ("compile", "_device"):
        monkeypatch.setattr(Compressor, name, lambda self, grad: None)
    monkeypatch.setattr("compll.runtime.compressor.run_batch", lambda *given, **options: None)
    monkeypatch.setattr("compll.runtime.routing.which_are_zero", lambda given: [False] * len(given))
    with NoHostTensors():
        yield


@pytest.mark.parametrize("name, strategy", WAYS)
@pytest.mark.parametrize("rank", range(RANKS))
def test_nothing_is_on_the_host(name: str, strategy: str, rank: int, on_a_gpu: None) -> None:
    specs = [
        GradientSpec(name=n, index=i, shape=torch.Size(s), dtype=torch.float32, compressible=len(s) > 1)
        for i, (n, s) in enumerate(SHAPES.items())
    ]
    collectives, compressor = FakeCollectives(rank), compll.load(name)
    own = ScheduledCompressor(compressor, ParameterSchedule({}))
    passing = ScheduledCompressor(compressor.with_feedback(compressor.feedback), ParameterSchedule({}))
    codec = Codec(
        own=own, passing=passing, states=States(rollback=True), seed=0, rank=rank, world_size=RANKS, threads=1
    )
    nodes = {"node": collectives, "across": FakeCollectives(0)} if strategy == "hierarchical" else {}
    context = Context(codec=codec, collectives=collectives, **nodes)  # type: ignore[arg-type]
    plan = Plan.uniform({spec.name: spec.compressible for spec in specs}, strategy)
    following = Following(plan, specs, context, GPU, debug=True)
    for _ in range(2):
        slices = [Slice(spec=spec, tensor=torch.zeros(spec.shape, device=GPU)) for spec in specs]
        travels = [*following.routing.open(0, slices, compressing=True), *following.routing.pool(slices)]
        for travel in travels:
            for task in travel.graph:
                if task.kind is Kind.SEND:
                    task.work(lambda: None).wait()
                else:
                    task.work()
        codec.end_step()
    assert len(collectives.taken) > 2
