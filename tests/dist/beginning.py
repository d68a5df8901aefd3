"""SyncStates that one rank makes differently, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from apart import raises_at_once
from harness import BACKEND, Ranks, backward, given_model, wanted

import compll
from compll import Compressor
from compll.runtime import meeting

#: What may be wrong on one rank, and what is said of it.
WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"compressor": "topc"}, "no built-in compressor `topc`"),
    ({"ratio": 7.0}, "`ratio`"),
    ({"ration": 0.1}, "`ration` is neither an option nor a parameter"),
    ({"strategy": "allreduce"}, "needs payloads that add"),
    ({"backend": "cuda"}, "backend"),
    ({"plan": "/nowhere/plan.json"}, "plan /nowhere/plan.json cannot be read"),
    ({"process_group": dist.group.WORLD}, "process_group needs"),
)


def what_is_wrong_on_one_rank_is_said_on_all(ranks: Ranks) -> None:
    last = ranks.world - 1
    for wrong, text in WRONG:
        if "process_group" in wrong:
            wrong = {"process_group": ranks.group}
        arguments = {"compressor": "topk", "backend": BACKEND, **(wrong if ranks.rank == last else {})}
        with raises_at_once(text, "Error: " if ranks.rank == last else f"CompllError: rank {last} cannot take part: "):
            compll.attach(ranks.ddp(given_model()), **arguments)
    ddp = ranks.ddp(given_model())
    compll.attach(ddp, "topk", backend=BACKEND)
    assert ranks.agree(list(backward(ddp, wanted(ranks.rank, 0)).values())), "after all that it still works"


def a_rank_that_does_not_come_is_named(ranks: Ranks) -> None:
    ddp = ranks.ddp(given_model())
    if ranks.rank == 1:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meeting, "group_timeout", lambda *group: meeting.TO_BE_HEARD)
        with raises_at_once("need to make a SyncState together; after 5 s, .* still missing: rank 1"):
            compll.attach(ddp, "topk", backend=BACKEND)


def a_rank_that_cannot_compile_is_named(ranks: Ranks) -> None:
    before = len(dist.distributed_c10d._world.pg_names)
    compile_now = Compressor.compile

    def out_of_space(self: Compressor, grad: torch.Tensor) -> None:
        if ranks.rank == 0:
            raise OSError("no space left on device")
        compile_now(self, grad)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compressor, "compile", out_of_space)
        with raises_at_once("no space left on device", "OSError" if ranks.rank == 0 else "rank 0 cannot take part"):
            compll.attach(ranks.ddp(given_model()), "topk", backend=BACKEND)
    assert len(dist.distributed_c10d._world.pg_names) == before


def groups_that_cannot_all_be_made_are_given_up(ranks: Ranks) -> None:
    before, new_group = len(dist.distributed_c10d._world.pg_names), dist.new_group
    for last in range(1, 6):  # the group of all, two of nodes, two across
        made: list[Any] = []

        def limited(*arguments: Any, **options: Any) -> Any:
            if len(made) == last:
                raise RuntimeError("too many open files")
            made.append(new_group(*arguments, **options))
            return made[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dist, "new_group", limited)
            try:
                compll.attach(
                    ranks.ddp(given_model()), "topk", strategy="hierarchical", node_size=2, backend=BACKEND
                ).close()  # fmt: skip
            except RuntimeError as problem:
                assert "too many open files" in str(problem) and last < 5
        assert len(made) == last and len(dist.distributed_c10d._world.pg_names) == before, last


CASES = [
    (what_is_wrong_on_one_rank_is_said_on_all, 2),
    (what_is_wrong_on_one_rank_is_said_on_all, 3),
    (a_rank_that_does_not_come_is_named, 3),
    (a_rank_that_cannot_compile_is_named, 2),
    (groups_that_cannot_all_be_made_are_given_up, 4),
]
