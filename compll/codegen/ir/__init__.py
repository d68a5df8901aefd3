"""The intermediate representation: SSA values, one parallel operation (`Sweep`) and the few that are no sweeps.

A *sweep* walks an iteration space, evaluates a scalar body at every position and gives the scalars to sinks, each of
which is one parallel pattern: `Write` (map), `Fold` (reduce), `Keep` (filter), `Top` and `Kth` (selection), `Scan`,
`Put` (scatter). Lowering makes sweeps of one primitive each; fusion merges them. Nothing here knows a language, a
backend or a buffer. What each thing means is written once, executably, in `interpret.py`; what is legal, in
`verify.py`.
"""

from __future__ import annotations

from compll.codegen.ir.opcodes import OPCODES, Opcode
from compll.codegen.ir.operations import (
    AllReduce,
    Carried,
    Loop,
    MatMul,
    Operation,
    Orthonormalize,
    Sort,
    Sweep,
    Transpose,
    results,
    with_inner,
)
from compll.codegen.ir.programs import Field, Function, GradientView, Parameter, Port, Program, Role, StateSpec
from compll.codegen.ir.sinks import Combine, CombineKind, Fold, Keep, Kth, Put, Scan, Sink, Top, Write, sink_results
from compll.codegen.ir.values import Attribute, Body, Scalar, Statement, Value

__all__ = [
    "OPCODES", "AllReduce", "Attribute", "Body", "Carried", "Combine", "CombineKind", "Field", "Fold", "Function",
    "GradientView", "Keep", "Kth", "Loop", "MatMul", "Opcode", "Operation", "Orthonormalize", "Parameter", "Port",
    "Program", "Put", "Role", "Scalar", "Scan", "Sink", "Sort", "StateSpec", "Statement", "Sweep", "Top",
    "Transpose", "Value", "Write", "results", "sink_results", "with_inner",
]  # fmt: skip
