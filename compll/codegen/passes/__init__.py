"""The optimising middle: passes `Program -> Program` in a fixed order, each verified.

A pass returns the same object when it changed nothing, keeps the meaning of every function bit for bit, and leaves the
streams of random draws as they are.
"""

from __future__ import annotations

from collections.abc import Callable

from compll.codegen import ir
from compll.codegen.passes.eliminate import eliminate_dead
from compll.codegen.passes.fuse import fuse_sweeps
from compll.codegen.passes.share import share_equal
from compll.codegen.passes.simplify import simplify_bodies
from compll.codegen.passes.split_folds import split_folds
from compll.codegen.verify import verify
from compll.diagnostics import InternalError

Pass = Callable[[ir.Program], ir.Program]

PIPELINE: tuple[Pass, ...] = (
    simplify_bodies,
    eliminate_dead,  # before fusion: what nobody reads must not shape the schedule
    split_folds,  # before fusion: it makes whole folds fit into row-wise sweeps
    fuse_sweeps,
    share_equal,  # after fusion: equal reductions have become equal sinks of equal bodies
    simplify_bodies,  # what reads shared results has become equal
    eliminate_dead,
)


def optimise(program: ir.Program) -> ir.Program:
    """Run the pipeline. Raises InternalError naming the pass after which the program is not legal any more."""
    for step in PIPELINE:
        result = step(program)
        if result is not program:
            _verify_after(step, result)
        program = result
    return program


def _verify_after(step: Pass, program: ir.Program) -> None:
    try:
        verify(program)
    except InternalError as problem:
        raise InternalError(f"pass `{step.__name__}` broke program `{program.name}`: {problem}") from problem
