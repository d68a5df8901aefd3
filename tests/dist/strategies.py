"""Every strategy: replicas that stay identical, the identity compressor as plain DDP, plans that are obeyed."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from harness import BACKEND, COMPRESSED, SHAPES, Given, Ranks, attach, backward, draw, given_model, wanted
from replicas import identity, network, train

import compll
from compll.runtime import following
from compll.runtime.load import built_in_names
from compll.runtime.options import ParameterSchedule
from compll.runtime.plan import Plan
from compll.runtime.scheduled import ScheduledCompressor

#: Options by name; ranks of two nodes, where they make two.
STRATEGIES = {
    "allgather": {},
    "ps": {},
    "ring": {},
    "hierarchical": {"node_size": 2},
}

#: `make matrix` trains longer.
STEPS = int(os.environ.get("COMPLL_MATRIX_STEPS", "3"))

HALF = """compressor half {
    trait linear;
    payload { value: f16[n]; }
    encode(g: f32[n]) { return { value: f16(g) }; }
    decode(p) -> f32[n] { return f32(p.value); }
}
"""


def strategies(world: int) -> dict[str, dict[str, object]]:
    """The options of the strategies that work with so many ranks."""
    return {
        name: {"strategy": name, **options}
        for name, options in STRATEGIES.items()
        if world % options.get("node_size", 1) == 0
    }


def large_model() -> Given:
    """Gradients that are cut into pieces for several ranks."""
    return Given(flat=torch.zeros(130, 130), tall=torch.zeros(400, 20), small=torch.zeros(40, 40), bias=torch.zeros(9))


def large_gradients(rank: int, step: int) -> dict[str, torch.Tensor]:
    return {n: draw(p.shape, rank, step, i) for i, (n, p) in enumerate(large_model().named_parameters())}


# --- cases -----------------------------------------------------------------------------------------------------------


def built_ins_go_every_way(ranks: Ranks) -> None:
    for name in built_in_names():
        c = compll.load(name, backend=BACKEND)
        if c.reduces_inside:
            continue
        for options in strategies(ranks.world).values():
            ddp = ranks.ddp(network(), bucket_cap_mb=0.01)
            attach(ranks, ddp, c, **options)
            after = train(ddp, ranks.rank, STEPS)
            assert ranks.agree(after), (name, options)
            assert all(torch.isfinite(p).all() for p in after), (name, options)


def identity_is_the_mean(ranks: Ranks) -> None:
    """At two ranks bit for bit plain DDP's; beyond, sums in another order differ in the last bits."""
    plain = train(ranks.ddp(network(), bucket_cap_mb=0.02), ranks.rank, 4)
    for options in strategies(ranks.world).values():
        ddp = ranks.ddp(network(), bucket_cap_mb=0.02)
        attach(ranks, ddp, identity(), backend=BACKEND, **options)
        for mine, theirs in zip(train(ddp, ranks.rank, 4), plain, strict=True):
            if ranks.world <= 2:
                assert torch.equal(mine, theirs), options
            else:
                torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


def sums_in_16_bits_do_not_overflow(ranks: Ranks) -> None:
    path = Path(tempfile.mkdtemp()) / "half.cll"
    path.write_text(HALF)
    large = {"flat": torch.full((130, 130), 60000.0)}
    for options in (*strategies(ranks.world).values(), {"strategy": "allreduce"}):
        ddp = ranks.ddp(Given(flat=torch.zeros(130, 130)))
        attach(ranks, ddp, str(path), backend=BACKEND, **options)
        torch.testing.assert_close(backward(ddp, large)["flat"], large["flat"], rtol=1e-3, atol=0)


def pieces_are_owned_by_all(ranks: Ranks) -> None:
    for name in ("topk", "adtopk", "onebit", "dgc", "qsgd", "terngrad"):
        for options in strategies(ranks.world).values():
            ddp = ranks.ddp(large_model(), bucket_cap_mb=0.02)
            sync = attach(ranks, ddp, name, backend=BACKEND, **options)
            for step in range(3):
                got = backward(ddp, large_gradients(ranks.rank, step))
                assert ranks.agree(list(got.values())), (name, options)
            states = sync.state_dict()["states"]
            assert any(n.startswith("flat[") for n in states) == (options["strategy"] != "allgather"), states.keys()


def a_plan_is_obeyed(ranks: Ranks) -> None:
    routes = {
        "first": {"strategy": "ps", "parts": 1},
        "conv": {"strategy": "dense-bf16", "parts": 1},
        "last": {"strategy": "allgather", "parts": 1},
        "bias": {"strategy": "dense", "parts": 1},
        "scalar": {"strategy": "dense", "parts": 1},
    }
    path = Path(tempfile.mkdtemp()) / "plan.json"
    path.write_text(json.dumps({"version": 1, "gradients": routes}))
    ddp = ranks.ddp(given_model(), bucket_cap_mb=0.005)
    sync = attach(ranks, ddp, "topk", backend=BACKEND, plan=str(path))
    got = backward(ddp, wanted(ranks.rank, 0))
    assert ranks.agree(list(got.values()))
    torch.testing.assert_close(got["conv"], ranks.mean(wanted(ranks.rank, 0)["conv"]), rtol=2e-2, atol=2e-2)
    compressed = {g.name for g in sync.stats().gradients if g.compressed}
    assert compressed == {"first", "last"}
    before = sync.stats().bytes_per_step
    routes["first"] = {"strategy": "dense", "parts": 1}
    path.write_text(json.dumps({"version": 1, "gradients": routes}))
    ddp = ranks.ddp(given_model(), bucket_cap_mb=0.005)
    sync = attach(ranks, ddp, "topk", backend=BACKEND, plan=str(path))
    backward(ddp, wanted(ranks.rank, 0))
    assert sync.stats().bytes_per_step > before + 3000
    del routes["last"]
    path.write_text(json.dumps({"version": 1, "gradients": routes}))
    with pytest.raises(compll.CompllError, match="the plan has no `last`, which the model has"):
        compll.SyncState(ranks.ddp(given_model()), "topk", backend=BACKEND, plan=str(path))


def partitions_travel_on_their_own(ranks: Ranks) -> None:
    """Cut into parts, a quantiser in blocks and a row-wise selection give what they give whole."""
    routes = {n: {"strategy": "dense", "parts": 1} for n in ("small", "bias")}
    for name in ("adtopk", "identity"):
        results = []
        for parts in (1, 3):
            plan = {n: {"strategy": "allgather", "parts": parts} for n in ("flat", "tall")}
            path = Path(tempfile.mkdtemp()) / "plan.json"
            path.write_text(json.dumps({"version": 1, "gradients": {**routes, **plan}}))
            ddp = ranks.ddp(large_model())
            attach(ranks, ddp, identity() if name == "identity" else name, backend=BACKEND, plan=str(path))
            results.append([backward(ddp, large_gradients(ranks.rank, step)) for step in range(3)])
        for whole, cut in zip(*results, strict=True):
            assert all(torch.equal(whole[n], cut[n]) for n in whole), name


def dgc_does_not_amplify(ranks: Ranks) -> None:
    """With a constant gradient, what is applied approaches the velocity's limit, 1 / (1 - momentum) times it."""
    totals = {}
    for name, options in strategies(ranks.world).items():
        ddp = ranks.ddp(given_model())
        attach(ranks, ddp, "dgc", ratio=0.05, backend=BACKEND, **options)
        applied = torch.zeros(SHAPES["first"])
        for _ in range(60):
            applied += backward(ddp, wanted(ranks.rank, 0))["first"]
        totals[name] = applied.norm() / 60
    assert all(total < 1.2 * totals["allgather"] for total in totals.values()), totals
    assert all(total > 0.5 * totals["allgather"] for total in totals.values()), totals


def powersgd_reduces_on_the_way(ranks: Ranks) -> None:
    ddp = ranks.ddp(given_model(), find_unused_parameters=True)
    sync = attach(ranks, ddp, "powersgd", backend=BACKEND, strategy="rounds")
    sent, given = torch.zeros(SHAPES["first"]), torch.zeros(SHAPES["first"])
    for step in range(5):
        mine = wanted(ranks.rank, step)
        if ranks.rank == 1 and step == 2:
            del mine["last"]
        got = backward(ddp, mine)
        assert ranks.agree(list(got.values())), step
        sent, given = sent + got["first"], given + mine["first"]
    kept = sync.state_dict()["states"]["first"]["residual"]
    torch.testing.assert_close(sent, ranks.mean(given - kept), rtol=1e-4, atol=1e-4)
    with pytest.raises(compll.UnsupportedError, match="`powersgd` reduces over the ranks inside encode"):
        compll.SyncState(ranks.ddp(given_model()), "powersgd", backend=BACKEND, strategy="ps")
    with pytest.raises(compll.UnsupportedError, match="'rounds' needs collectives in encode, which `topk` has not"):
        compll.SyncState(ranks.ddp(given_model()), "topk", backend=BACKEND, strategy="rounds")


def debug_compares_what_ranks_exchange(ranks: Ranks) -> None:
    for options in strategies(ranks.world).values():
        results = []
        for debug in (False, True):
            ddp = ranks.ddp(given_model(), bucket_cap_mb=0.005)
            attach(ranks, ddp, "topk", backend=BACKEND, debug=debug, **options)
            results.append([backward(ddp, wanted(ranks.rank, step)) for step in range(2)])
        assert all(torch.equal(a[n], b[n]) for a, b in zip(*results, strict=True) for n in (*COMPRESSED, "bias"))
    ddp = ranks.ddp(given_model())
    sync = compll.attach(ddp, "topk", backend=BACKEND, debug=True, ratio=0.5)  # the spare group would be out of step
    if ranks.rank == 1:
        sync._codec.own = ScheduledCompressor(sync.compressor.with_params(ratio=0.1), ParameterSchedule({}))
    with pytest.raises(RuntimeError, match=r"about to exchange different things: rank 0 .*; rank 1 .*`first`"):
        backward(ddp, wanted(ranks.rank, 0))


def a_plan_is_made_on_the_way(ranks: Ranks) -> None:
    """Whatever rank 0 decides after the first steps, all follow, and a saved state brings the plan along."""
    wish = Plan.uniform({n: n in COMPRESSED for n in SHAPES}, "ps")
    for decided in (None, wish):
        with pytest.MonkeyPatch.context() as patch:
            if decided is not None:
                patch.setattr(following, "decide", lambda *_, **__: decided if ranks.rank == 0 else None)
            ddp = ranks.ddp(given_model(), bucket_cap_mb=0.005)
            sync = attach(ranks, ddp, "topk", backend=BACKEND, plan="auto", ratio=0.1)
            for step in range(8):
                got = backward(ddp, wanted(ranks.rank, step))
                assert ranks.agree(list(got.values())), step
                if step < 5:
                    assert not any(g.compressed for g in sync.stats().gradients)
            texts = [None] * ranks.world
            dist.all_gather_object(texts, json.dumps(sync.plan.to_json()), group=ranks.group)
            assert len(set(texts)) == 1
            if decided is not None:
                assert sync.plan == wish and {g.name for g in sync.stats().gradients if g.compressed} == {*COMPRESSED}
            saved = sync.state_dict()
            ddp = ranks.ddp(given_model(), bucket_cap_mb=0.005)
            resumed = attach(ranks, ddp, "topk", backend=BACKEND, plan="auto", ratio=0.1)
            resumed.load_state_dict(saved)
            assert resumed.plan == sync.plan and resumed.step == 8
            assert resumed.state_dict()["plan"]["decided"], "it must not decide again"
            assert resumed.state_dict()["states"].keys() == saved["states"].keys()


CASES = [
    (case, world)
    for world in (2, 3, 4)
    for case in (
        built_ins_go_every_way,
        identity_is_the_mean,
        sums_in_16_bits_do_not_overflow,
        pieces_are_owned_by_all,
        a_plan_is_obeyed,
        partitions_travel_on_their_own,
        dgc_does_not_amplify,
        powersgd_reduces_on_the_way,
        debug_compares_what_ranks_exchange,
        a_plan_is_made_on_the_way,
    )
]
