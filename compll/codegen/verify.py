"""What a legal program is. Runs after lowering and after every pass; a complaint is a defect of compll.

Rules of bodies are in `verify_body.py`, of sinks in `verify_sinks.py`; here are operations, functions and ports.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from compll.codegen import ir
from compll.codegen.verify_body import verify_body
from compll.codegen.verify_scope import Scope, Sizes
from compll.codegen.verify_sinks import verify_sink
from compll.diagnostics import InternalError
from compll.dtypes import BOOL, F32, U32

_INPUT_ROLES = ("gradient", "residual", "state", "field", "previous", "count", "out")


def verify(program: ir.Program) -> None:
    """Raise InternalError, naming function, value and rule, unless the program is legal."""
    sizes = Sizes.of(program)
    parameters = {p.name: p.dtype for p in program.parameters}
    names = [f.name for f in program.functions]
    for function in program.functions:
        scope = Scope(function=function.name, sizes=sizes, parameters=parameters)
        scope.require(names.count(function.name) == 1, function.name, "two functions have this name")
        _function(program, function, scope)
    for state in program.states:
        if state.initial is not None and state.initial not in names:
            raise InternalError(f"state `{state.name}` starts from `{state.initial}`, which does not exist")


def _function(program: ir.Program, function: ir.Function, scope: Scope) -> None:
    for port in function.inputs:
        scope.require(port.role in _INPUT_ROLES, port.name, f"`{port.role}` is no input")
    scope.define_all(port.value for port in function.inputs)
    _operations(function.operations, scope)
    for port in function.outputs:
        scope.use(port.value)
    _ports(function, scope)
    _fields(program, function, scope)
    _states(program, function, scope)


def _operations(operations: Iterable[ir.Operation], scope: Scope) -> None:
    for operation in operations:
        _operation(operation, scope)


def _operation(operation: ir.Operation, scope: Scope) -> None:
    match operation:
        case ir.Sweep():
            _sweep(operation, scope)
        case ir.Loop():
            _loop(operation, scope)
        case ir.MatMul():
            _matmul(operation, scope)
        case ir.Sort() | ir.Transpose() | ir.Orthonormalize() | ir.AllReduce():
            _whole_array(operation, scope)
        case _:
            assert_never(operation)


def _sweep(sweep: ir.Sweep, scope: Scope) -> None:
    first = ir.results(sweep)[0].name if sweep.sinks else "sweep"
    scope.require(bool(sweep.sinks), first, "a sweep needs a sink")
    scope.check_sizes(first, sweep.shape)
    scope.require(len(sweep.shape) <= 2, first, f"a space has at most two dimensions, got {len(sweep.shape)}")
    if sweep.count is not None:
        scope.require(len(sweep.shape) == 1, first, "only a one-dimensional space is bounded")
        scope.check_count(first, sweep.count)
    dtypes = verify_body(sweep.body, scope, sweep.shape)
    for sink in sweep.sinks:
        verify_sink(sink, sweep, scope, dtypes)
    scope.define_all(ir.results(sweep))


def _whole_array(operation: ir.Sort | ir.Transpose | ir.Orthonormalize | ir.AllReduce, scope: Scope) -> None:
    source, result = operation.source, operation.result
    scope.use(source)
    name = type(operation).__name__.lower()
    outside = not (isinstance(operation, ir.AllReduce) and scope.in_loop)
    scope.require(outside, result.name, "no collective inside a loop: ranks leave it at different turns")
    if isinstance(operation, (ir.Sort, ir.Transpose)):
        whole = source.dtype.computes_as == source.dtype != BOOL and bool(source.shape)
        scope.require(whole, result.name, f"`{name}` needs an array of numbers that compute as themselves")
    else:
        scope.require(source.dtype == F32, result.name, f"`{name}` needs f32, got {source.dtype}")
    if isinstance(operation, (ir.Transpose, ir.Orthonormalize)):
        scope.require(len(source.shape) == 2, result.name, f"`{name}` needs a matrix")
    shape = source.shape[::-1] if isinstance(operation, ir.Transpose) else source.shape
    scope.expect(result, source.dtype, shape, source.count)
    scope.define(result)


def _matmul(operation: ir.MatMul, scope: Scope) -> None:
    shapes = []
    for value, transposed in ((operation.left, operation.transpose_left), (operation.right, operation.transpose_right)):
        scope.use(value)
        matrix = len(value.shape) == 2 and value.dtype == F32
        scope.require(matrix, operation.result.name, f"`matmul` needs f32 matrices, `{value.name}` is none")
        shapes.append(value.shape[::-1] if transposed else value.shape)
    left, right = shapes
    inner = scope.sizes.equal(left[1:], right[:1])
    scope.require(inner, operation.result.name, f"`matmul` of {left[1]} columns with {right[0]} rows")
    scope.expect(operation.result, F32, (left[0], right[1]))
    scope.define(operation.result)


def _loop(loop: ir.Loop, scope: Scope) -> None:
    scope.require(loop.limit >= 0, "loop", f"a limit is at least 0, got {loop.limit}")
    outside, outer_loop = dict(scope.defined), scope.in_loop
    scope.in_loop = True
    for carried in loop.carried:
        scope.use(carried.initial)
        scope.expect(carried.parameter, carried.initial.dtype, carried.initial.shape, carried.initial.count)
        scope.define(carried.parameter)
    _operations(loop.head, scope)
    scope.use(loop.condition)
    scope.expect(loop.condition, BOOL, ())
    _operations(loop.body, scope)
    for carried in loop.carried:
        scope.use(carried.yielded)
        scope.expect(carried.yielded, carried.initial.dtype, carried.initial.shape, carried.initial.count)
    scope.defined, scope.in_loop = outside, outer_loop
    for carried in loop.carried:
        scope.expect(carried.result, carried.initial.dtype, carried.initial.shape, carried.initial.count)
        scope.define(carried.result)


# --- ports -----------------------------------------------------------------------------------------------------------


def _ports(function: ir.Function, scope: Scope) -> None:
    for ports in (function.inputs, function.outputs):
        named = [(p.role, p.name) for p in ports]
        for port in ports:
            scope.require(named.count((port.role, port.name)) == 1, port.name, f"two {port.role} ports of this name")
    before = {(p.role, p.name): p.value for p in function.inputs}
    for port in function.outputs:
        match port.role:
            case "residual" | "state":
                old = before.get((port.role, port.name))
                if old is None:
                    scope.require(function.name.startswith("initial_"), port.name, f"{port.role} goes out, but not in")
                else:
                    scope.expect(port.value, old.dtype, old.shape, old.count)
            case "finite":
                scope.expect(port.value, BOOL, ())
            case "cut" | "count":
                scope.expect(port.value, U32, ())
            case "gradient" | "previous":
                scope.fail(port.name, f"`{port.role}` is no output")
            case "field" | "out":
                pass
            case _:
                assert_never(port.role)


def _fields(program: ir.Program, function: ir.Function, scope: Scope) -> None:
    """Field and count ports agree with the payload; what encodes returns all of it."""
    declared = {f.name: f for f in program.fields}
    encodes = function.name.startswith("encode")
    ports = function.outputs if encodes else function.inputs
    counts = {p.name: p.value.name for p in ports if p.role == "count"}
    for port in (*ports, *(p for p in function.inputs if p.role == "previous")):
        if port.role in ("field", "previous"):
            field = declared.get(port.name)
            if field is None:
                scope.fail(port.name, "is no field of the payload")
            count = counts.get(field.count_of) if field.count_of else None
            scope.require(not field.count_of or bool(count), port.name, f"the count of `{field.count_of}` is missing")
            scope.expect(port.value, field.dtype, field.shape, count)
    if encodes:
        returned = {p.name for p in ports if p.role == "field"}
        for name in declared:
            scope.require(name in returned, name, "this field of the payload is not returned")
        for field in program.fields:
            owned = field.count_of != field.name or field.name in counts
            scope.require(owned, field.name, "the count of this field is not returned")


def _states(program: ir.Program, function: ir.Function, scope: Scope) -> None:
    declared = {s.name: s for s in program.states}
    for port in (*function.inputs, *function.outputs):
        if port.role == "state":
            state = declared.get(port.name)
            if state is None:
                scope.fail(port.name, "is no state of the program")
            scope.expect(port.value, state.dtype, state.shape)
