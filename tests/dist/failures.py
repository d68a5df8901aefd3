"""What happens when something goes wrong on one rank: everybody hears of it, at once and by name."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import BACKEND, COMPRESSED, SHAPES, Ranks, backward, given_model, wanted
from torch.nn.parallel import DistributedDataParallel

import compll
from compll import CompllError, Compressor
from compll.runtime.plan import Plan
from compll.runtime.rounds import Rounds


def failing_in_step(step: int, rank: int) -> Any:
    """An encode_batch that fails in one step of one rank."""
    encode_batch = Compressor.encode_batch

    def encode(self: Compressor, grads: Any, states: Any, keys: Any, *rest: Any, **options: Any) -> Any:
        if keys and keys[0].step == step and keys[0].rank == rank:
            raise ValueError("out of paper")
        return encode_batch(self, grads, states, keys, *rest, **options)

    return encode


def a_failing_rank_is_named_on_all(ranks: Ranks) -> None:
    for name, strategy in (("topk", "auto"), ("randomk", "auto"), ("topk", "ps"), ("onebit", "ring")):
        ddp = ranks.ddp(given_model(), bucket_cap_mb=0.004)
        sync = compll.attach(ddp, name, strategy=strategy, backend=BACKEND)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Compressor, "encode_batch", failing_in_step(1, ranks.world - 1))
            backward(ddp, wanted(ranks.rank, 0))
            begin = time.perf_counter()
            with pytest.raises(RuntimeError) as caught:
                backward(ddp, wanted(ranks.rank, 1))
        assert time.perf_counter() - begin < 20
        text = str(caught.value)
        assert f"compressor `{name}` failed on rank {ranks.rank} in step 1 while" in text
        assert any(f"`{n}`" in text for n in ("first", "conv", "last"))
        assert ("out of paper" in text) == (ranks.rank == ranks.world - 1)
        assert ("could not encode its part" in text) == (ranks.rank != ranks.world - 1)
        with pytest.raises(RuntimeError, match=f"compressor `{name}` failed"):
            ddp(wanted(ranks.rank, 2)).backward()
        sync.close()


def a_rank_that_fails_between_rounds_stops_all(ranks: Ranks) -> None:
    """It goes on with zeros, as many as the others expect."""
    go_on = Rounds.__next__

    def fail(self: Rounds) -> list[torch.Tensor]:
        if sync.step == 1 and ranks.rank == 0 and counted.append(None) is None and len(counted) == 2:
            raise ValueError("out of paper")
        return go_on(self)

    counted: list[None] = []
    ddp = ranks.ddp(given_model())
    sync = compll.attach(ddp, "powersgd", backend=BACKEND)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rounds, "__next__", fail)
        backward(ddp, wanted(ranks.rank, 0))
        begin = time.perf_counter()
        with pytest.raises(RuntimeError, match="out of paper" if ranks.rank == 0 else "could not encode its part"):
            backward(ddp, wanted(ranks.rank, 1))
    assert time.perf_counter() - begin < 20
    with pytest.raises(CompllError, match="states of a step that failed are not worth saving"):
        sync.state_dict()
    sync.close()


def a_plan_that_one_rank_lacks_is_refused_on_all(ranks: Ranks) -> None:
    path = Path(tempfile.mkdtemp()) / "plan.json"
    if ranks.rank == 0:
        plan = Plan.uniform({name: name in COMPRESSED for name in SHAPES}, "allgather")
        path.write_text(json.dumps(plan.to_json()))
    lacks = "rank 1 cannot take part: " if ranks.rank == 0 else ""
    with pytest.raises(CompllError, match=f"{lacks}plan .* cannot be read: No such file"):
        compll.attach(ranks.ddp(given_model()), "topk", plan=str(path), backend=BACKEND)


def unequal_arguments_are_refused_on_all(ranks: Ranks) -> None:
    """And leave no process group behind, unless it is of a part of all ranks (`groups._is_partial`)."""
    before = len(torch.distributed.distributed_c10d._world.pg_names)
    with pytest.raises(CompllError, match="all ranks need the same compressor, parameters, options, plan, ranks per"):
        compll.attach(ranks.ddp(given_model()), "topk", ratio=0.1 + 0.1 * ranks.rank, backend=BACKEND)
    partial = ranks.world < torch.distributed.get_world_size()
    assert partial or len(torch.distributed.distributed_c10d._world.pg_names) == before


def a_closed_state_says_so(ranks: Ranks) -> None:
    ddp = ranks.ddp(given_model())
    sync = compll.attach(ddp, "topk", backend=BACKEND)
    backward(ddp, wanted(ranks.rank, 0))
    sync.close()
    with pytest.raises(RuntimeError, match="closed"):
        ddp(wanted(ranks.rank, 1)).backward()


def a_group_of_ones_own(ranks: Ranks) -> None:
    ddp = ranks.ddp(given_model())
    own = torch.distributed.new_group(list(range(ranks.world)))
    sync = compll.attach(ddp, "topk", backend=BACKEND, process_group=own)
    assert ranks.agree(list(backward(ddp, wanted(ranks.rank, 0)).values()))
    sync.close()


def ranks_with_different_buckets_are_told_apart(ranks: Ranks) -> None:
    for strategy in ("allgather", "ps", "ring"):
        cap = 25 if ranks.rank == 0 else 0.005  # rank 0 has one bucket, the others have several
        # of its own: a backward that ends half-way leaves DDP's own collectives out of step, for whoever comes next
        group = torch.distributed.new_group(list(range(ranks.world)))
        ddp = DistributedDataParallel(
            given_model(), process_group=group, bucket_cap_mb=cap, find_unused_parameters=True
        )  # fmt: skip
        compll.attach(ddp, "topk", strategy=strategy, debug=True, backend=BACKEND)
        begin = time.perf_counter()
        with pytest.raises(RuntimeError, match="`topk` failed on .* about to exchange different things: rank 0"):
            backward(ddp, wanted(ranks.rank, 0))
        assert time.perf_counter() - begin < 20


CASES = [
    (a_failing_rank_is_named_on_all, 2),
    (a_failing_rank_is_named_on_all, 3),
    (a_rank_that_fails_between_rounds_stops_all, 2),
    (a_rank_that_fails_between_rounds_stops_all, 4),
    (a_plan_that_one_rank_lacks_is_refused_on_all, 4),
    (unequal_arguments_are_refused_on_all, 3),
    (unequal_arguments_are_refused_on_all, 4),
    (a_closed_state_says_so, 2),
    (a_group_of_ones_own, 3),
    (ranks_with_different_buckets_are_told_apart, 4),
]
