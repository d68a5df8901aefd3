"""How many launches a call costs on a GPU: few, whatever the number of steps, tensors and ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from differential.patterns import PATTERNS

from compll.codegen.driver import Compilation
from compll.codegen.emit.cuda import cuda_function, cuda_merge, merge_launches
from compll.codegen.emit.cuda_launch import FusedMerge, Launch, LibraryCall, PhasedMerge, Phases
from compll.codegen.walks import merges_in_one_walk
from compll.diagnostics import SourceFile
from compll.dsl.parameters import parameter_values
from compll.runtime.program import Program

ALGORITHMS = sorted(Path(__file__).parents[2].glob("algorithms/*.cll"))
#: Matrix products come from the platform's library, and are launches of their own.
WITH_LIBRARY = {"powersgd"}
SOURCES = {path.stem: path.read_text() for path in ALGORITHMS if path.stem not in WITH_LIBRARY}


def compilation(name: str, text: str) -> Compilation:
    program = Program(SourceFile(f"{name}.cll", text))
    values = parameter_values(program.module, {})
    return program.sized(torch.Size((300, 200)), torch.float32, values, values).compilation


@pytest.mark.parametrize("name", [*SOURCES, *PATTERNS])
def test_every_function(name: str) -> None:
    """At most three launches to encode and two for anything else, by the plan, which no batch changes."""
    compiled = compilation(name, SOURCES[name] if name in SOURCES else PATTERNS[name][0])
    for function, plan in compiled.plans.items():
        steps = cuda_function(plan).steps
        if not any(isinstance(step, LibraryCall) for step in steps):
            assert len(steps) <= (3 if function.startswith("encode") else 2), function
    merge = cuda_merge(compiled.plans)
    assert merge is not None or any(isinstance(s, LibraryCall) for s in cuda_function(compiled.plans["decode"]).steps)
    assert merge is None or merge_launches(compiled.plans, 4) == (("merge",),)


def test_the_heaviest_walk_stays_lean() -> None:
    """What reads and writes most is a plain launch of its own, without the shared memory that sampling needs."""
    plan = compilation("topk", SOURCES["topk"]).plans["encode_with_feedback"]
    sample, main, rest = cuda_function(plan).steps
    assert isinstance(sample, Launch) and isinstance(main, Launch) and isinstance(rest, Phases)
    assert main.function == "encode_with_feedback_top_index"
    assert rest.phases[1] == "2 x encode_with_feedback_top_index_refine"


@pytest.mark.parametrize(("name", "kind"), [("qsgd", FusedMerge), ("onebit", FusedMerge), ("topk", PhasedMerge)])
def test_where_decode_is_elementwise_sums_stay_in_registers(name: str, kind: type) -> None:
    merge = cuda_merge(compilation(name, SOURCES[name]).plans)
    assert merge is not None and isinstance(merge.launch, kind)


@pytest.mark.parametrize("name", SOURCES)
def test_both_targets_merge_in_one_walk_where_decode_is_one(name: str) -> None:
    """Elsewhere, the sums are divided by the last phase of the same launch."""
    compiled = compilation(name, SOURCES[name])
    merge, one_walk = cuda_merge(compiled.plans), merges_in_one_walk(compiled.plans)
    assert merge is not None and isinstance(merge.launch, FusedMerge if one_walk else PhasedMerge)
    assert ("merge_by_pieces(" if one_walk else "merge_in_turns(") in compiled.source("cpu")
    last = [line.strip() for line in merge.text.splitlines()][-2]
    assert one_walk or last.startswith("first.run<compll::divide_tile<DecodeSegment>>")
