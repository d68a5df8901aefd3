"""What a legal scalar body is: one rule for each kind of opcode."""

from __future__ import annotations

from typing import assert_never

from compll.codegen import ir
from compll.codegen.verify_scope import Scope, spell
from compll.dtypes import BOOL, F32, F64, I32, I64, U32, U64, DType
from compll.sizes import Apply, Num, Size, Var

_NUMBERS = (F32, F64, I32, I64, U32, U64)
_INTEGERS = (I32, I64, U32, U64)
_AXES = ("flat", "row", "column")

Dtypes = dict[str, DType]


def verify_body(body: ir.Body, scope: Scope, shape: tuple[Size, ...] | None, bound: Dtypes | None = None) -> Dtypes:
    """The dtypes of all statements. `shape` is the space, or None for the body of a combine (no positions)."""
    dtypes: Dtypes = dict(bound or {})
    for statement in body:
        name = statement.name
        scope.require(name not in dtypes, name, "is defined twice in one body")
        opcode = ir.OPCODES.get(statement.opcode)
        if opcode is None:
            scope.fail(name, f"`{statement.opcode}` is no opcode")
        arities = (0, 1) if opcode.kind == "draw" else (opcode.arity,)
        needed, found = arities[-1], len(statement.args)
        scope.require(found in arities, name, f"`{statement.opcode}` needs {needed} arguments, got {found}")
        for argument in statement.args:
            scope.require(argument in dtypes, name, f"its argument `{argument}` is used before it is defined")
        is_load = opcode.kind == "load"
        scope.require((statement.source is not None) == is_load, name, "a load has a source, nothing else has")
        _statement(statement, opcode, scope, shape, [dtypes[a] for a in statement.args])
        dtypes[name] = statement.dtype
    return dtypes


def _statement(
    statement: ir.Statement, opcode: ir.Opcode, scope: Scope, shape: tuple[Size, ...] | None, args: list[DType]
) -> None:
    match opcode.kind:
        case "leaf":
            _leaf(statement, scope, shape)
        case "load":
            _load(statement, scope, shape, args)
        case "draw":
            _draw(statement, scope, shape, args)
        case "arithmetic" | "compare" | "logic" | "bits" | "function":
            allowed, operands = _operands(statement.opcode, opcode.kind, statement.dtype, args)
            _types(statement, scope, args, allowed, operands)
        case "cast":
            pass
        case _:
            assert_never(opcode.kind)


def _operands(opcode: str, kind: str, dtype: DType, args: list[DType]) -> tuple[tuple[DType, ...], tuple[DType, ...]]:
    """The result types that an opcode allows, and the types that its arguments need."""
    n = len(args)
    match kind:
        case "arithmetic":
            return ((F32,) if opcode == "fma" else _NUMBERS), (dtype,) * n
        case "compare":
            return (BOOL,), (args[0].computes_as,) * n
        case "logic" if opcode == "select":
            return (dtype,), (BOOL, dtype.computes_as, dtype.computes_as)
        case "logic":
            return (BOOL,), (BOOL,) * n
        case "bits" if opcode in ("bits", "from_bits"):
            return ((U32,), (F32,)) if opcode == "bits" else ((F32,), (U32,))
        case "bits":
            return ((U32,) if opcode in ("popcount", "leading_zeros") else _INTEGERS), (dtype,) * n
        case _:
            if opcode in ("is_finite", "is_nan"):
                return (BOOL,), (F32,)
            return ((F32, F64) if opcode == "sqrt" else (F32,)), (dtype,) * n


def _types(
    statement: ir.Statement, scope: Scope, args: list[DType], allowed: tuple[DType, ...], operands: tuple[DType, ...]
) -> None:
    name, opcode = statement.name, statement.opcode
    wanted = " or ".join(d.name for d in allowed)
    scope.require(statement.dtype in allowed, name, f"`{opcode}` gives {wanted}, got {statement.dtype}")
    if opcode == "select" and statement.dtype.computes_as != statement.dtype:
        exact = all(a == statement.dtype for a in args[1:])
        scope.require(exact, name, f"`select` of {statement.dtype} needs both choices to be {statement.dtype}")
    for argument, found, needed in zip(statement.args, args, operands, strict=True):
        fits = found.computes_as == needed
        scope.require(fits, name, f"`{opcode}` needs `{argument}` to be {needed}, got {found}")


def _leaf(statement: ir.Statement, scope: Scope, shape: tuple[Size, ...] | None) -> None:
    name, dtype = statement.name, statement.dtype
    match statement.opcode:
        case "const":
            _constant(statement, scope)
        case "param":
            parameter = _attribute(statement, scope, "name")
            declared = scope.parameters.get(str(parameter))
            scope.require(declared == dtype, name, f"parameter `{parameter}` is {declared or 'unknown'}, not {dtype}")
        case "size":
            scope.check_sizes(name, (_size(statement, scope, "value"),))
        case _:
            scope.require(shape is not None, name, "a combine has no position")
            axis = _attribute(statement, scope, "axis")
            scope.require(axis in _AXES, name, f"axis needs to be one of {', '.join(_AXES)}, got `{axis}`")
            scope.require(dtype == U32, name, f"a position is u32, got {dtype}")


def _constant(statement: ir.Statement, scope: Scope) -> None:
    value, dtype = _attribute(statement, scope, "value"), statement.dtype
    match dtype.kind:
        case "bool":
            fits = isinstance(value, bool)
        case "float":
            fits = isinstance(value, (int, float)) and not isinstance(value, bool)
        case _:
            low, high = dtype.limits
            fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    scope.require(fits, statement.name, f"{value!r} is no constant of type {dtype}")


def _load(statement: ir.Statement, scope: Scope, shape: tuple[Size, ...] | None, args: list[DType]) -> None:
    name, source = statement.name, statement.source
    assert source is not None
    scope.use(source)
    same = statement.dtype in (source.dtype, source.dtype.computes_as)
    scope.require(same, name, f"loads {source.dtype} as {statement.dtype}")
    if statement.opcode == "load_at":
        scope.require(args[0] in (U32, I32), name, f"the index needs to be u32 or i32, got {args[0]}")
        scope.require(len(source.shape) > 0, name, f"`{source.name}` is a scalar and has no elements")
        if len(source.shape) == 2 or shape is None:
            same_rows = shape is not None and len(shape) == 2 and scope.sizes.equal(shape[:1], source.shape[:1])
            scope.require(same_rows, name, f"`{source.name}` is {spell(source)}, the space has other rows")
        return
    if source.shape == ():
        return
    if shape is None:
        scope.fail(name, "a combine loads scalars only")
    by_row = len(source.shape) == 1 and len(shape) == 2 and scope.sizes.equal(source.shape, shape[:1])
    fits = by_row or scope.sizes.equal(source.shape, shape)
    space = ", ".join(map(str, shape))
    scope.require(fits, name, f"`{source.name}` is {spell(source)}, which does not fit the space [{space}]")


def _draw(statement: ir.Statement, scope: Scope, shape: tuple[Size, ...] | None, args: list[DType]) -> None:
    name, opcode = statement.name, statement.opcode
    scope.require(shape is not None, name, "a combine draws nothing")
    scope.require(not scope.in_loop, name, "no draw inside a loop")
    stream = _attribute(statement, scope, "stream")
    legal = isinstance(stream, int) and 0 <= stream < 256
    scope.require(legal, name, f"a stream is 0..255, got {stream}")
    scope.require(isinstance(_attribute(statement, scope, "shared"), bool), name, "`shared` needs to be true or false")
    dtype = F32 if opcode in ("uniform", "normal") else U32
    scope.require(statement.dtype == dtype, name, f"`{opcode}` gives {dtype}, got {statement.dtype}")
    scope.require(all(a == U32 for a in args), name, "the position of a draw needs to be u32")
    if opcode == "uniform":
        bits = _attribute(statement, scope, "bits")
        scope.require(bits in (16, 32), name, f"bits needs to be 16 or 32, got {bits}")
    elif opcode != "normal":
        scope.check_sizes(name, (_size(statement, scope, "extent"),))


def _attribute(statement: ir.Statement, scope: Scope, name: str) -> ir.Attribute:
    found = dict(statement.attributes)
    scope.require(name in found, statement.name, f"`{statement.opcode}` needs the attribute `{name}`")
    return found[name]


def _size(statement: ir.Statement, scope: Scope, name: str) -> Size:
    size = _attribute(statement, scope, name)
    if not isinstance(size, (Num, Var, Apply)):
        scope.fail(statement.name, f"`{name}` needs to be a size, got {size!r}")
    return size
