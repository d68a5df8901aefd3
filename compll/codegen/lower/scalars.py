"""Elementwise expressions -> the scalar body of one sweep."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from compll.codegen import ir
from compll.codegen.lower.context import Binding, Context, Scope, array_type, size_of
from compll.diagnostics import InternalError, UnsupportedError
from compll.dsl import ast
from compll.dsl.types import ArrayType, Bounded, SizeType
from compll.dtypes import BOOL, F32, I32, U32, DType
from compll.sizes import Num, Size

BINARY = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem", "<<": "shl", ">>": "shr",
    "&": "bitand", "|": "bitor", "^": "bitxor", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne",
    "&&": "and", "||": "or",
}  # fmt: skip
UNARY = {"-": "neg", "!": "not", "~": "bitnot"}

#: Primitives that are one opcode applied to scalars of one dtype.
POINTWISE = {
    "abs", "min", "max", "floor", "ceil", "round", "trunc", "sqrt", "exp", "log", "exp2", "log2", "pow", "sign", "fma",
    "is_finite", "is_nan", "bits", "from_bits", "popcount", "leading_zeros",
}  # fmt: skip


@dataclass
class Builder:
    """The body of a sweep over `shape`, under construction."""

    context: Context
    shape: tuple[Size, ...]
    count: str | None
    statements: list[ir.Statement] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)
    _loads: dict[str, str] = field(default_factory=dict)

    def add(
        self, wish: str, dtype: DType, opcode: str, *args: str,
        source: ir.Value | None = None, **attributes: ir.Attribute,
    ) -> str:  # fmt: skip
        """Append a statement and return its name."""
        name, suffix = wish, 1
        while name in self._names:
            suffix += 1
            name = f"{wish}_{suffix}"
        self._names.add(name)
        pairs = tuple(sorted(attributes.items()))
        self.statements.append(
            ir.Statement(name=name, dtype=dtype, opcode=opcode, args=args, source=source, attributes=pairs)
        )
        return name

    def dtype_of(self, name: str) -> DType:
        return next(s.dtype for s in self.statements if s.name == name)

    def constant(self, value: ir.Scalar, dtype: DType) -> str:
        return self.add("c", dtype, "const", value=value)

    def load(self, value: ir.Value) -> str:
        """The value's element here (its row's, its scalar), loaded once."""
        if value.name not in self._loads:
            self._loads[value.name] = self.add(value.name, value.dtype, "load", source=value)
        return self._loads[value.name]

    def cast(self, name: str, dtype: DType) -> str:
        """The statement converted to `dtype`, if it is not of it already."""
        return name if self.dtype_of(name) == dtype else self.add(name, dtype, "cast", name)

    def body(self) -> ir.Body:
        return tuple(self.statements)

    # --- expressions -------------------------------------------------------------------------------------------------

    def scalar(self, expression: ast.Expression, scope: Scope) -> str:
        """Append what computes the expression at one position; returns the statement's name.

        Arithmetic is done in the computing type of the expression (u32 for every narrow unsigned, f32 for halves).
        """
        match expression:
            case ast.Number(value=value):
                return self._number(value, expression)
            case ast.Boolean(value=value):
                return self.constant(value, BOOL)
            case ast.Name(name=name):
                return self._name(name, expression, scope)
            case ast.Unary(operator=operator, operand=operand):
                dtype = self._dtype(expression).computes_as
                return self.add("t", dtype, UNARY[operator], self.cast(self.scalar(operand, scope), dtype))
            case ast.Binary():
                return self._binary(expression, scope)
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                dtype = self._dtype(expression).computes_as
                chosen = self.scalar(condition, scope)
                branches = [self.cast(self.scalar(e, scope), dtype) for e in (then, otherwise)]
                return self.add("t", dtype, "select", chosen, *branches)
            case ast.Cast(operand=operand):
                return self._cast(expression, operand, scope)
            case ast.Element(array=array, index=index):
                return self._gather(array, index, scope)
            case ast.Call():
                return self._call(expression, scope)
            case ast.Member():
                return self._array(expression, scope)
            case ast.Lambda():
                raise InternalError("a lambda is no scalar")

    def _dtype(self, expression: ast.Expression) -> DType:
        if isinstance(expression.type, SizeType):
            return F32
        return self.context.dtype(array_type(expression.type).element)

    def _number(self, value: float, expression: ast.Expression) -> str:
        dtype = self._dtype(expression)
        return self.constant(float(value) if dtype.kind == "float" else int(value), dtype)

    def _name(self, name: str, expression: ast.Expression, scope: Scope) -> str:
        binding = scope.get(name)
        if isinstance(binding, str):
            return binding
        if isinstance(binding, ir.Value):
            return self._load_or_broadcast(binding)
        if name in self.context.constants:
            return self._fixed(name)
        if name in self.context.parameters:
            return self.add(name, self.context.parameters[name], "param", name=name)
        return self.size(size_of(expression), F32)

    def _fixed(self, name: str) -> str:
        value = self.context.constants[name]
        dtype = BOOL if isinstance(value, bool) else I32 if isinstance(value, int) else F32
        return self.constant(value, dtype)

    def size(self, size: Size, dtype: DType) -> str:
        size = self.context.sizes.resolve(size)
        if isinstance(size, Num) and math.isfinite(size.value):
            return self.constant(size.value if dtype.kind == "float" else int(size.value), dtype)
        return self.add("size", dtype, "size", value=size)

    def _load_or_broadcast(self, value: ir.Value) -> str:
        if value.shape not in ((), self.shape) and value.shape != self.shape[:1]:
            raise InternalError(f"`{value.name}` of shape {value.shape} does not fit a space of shape {self.shape}")
        return self.load(value)

    def _binary(self, expression: ast.Binary, scope: Scope) -> str:
        left, right = self.scalar(expression.left, scope), self.scalar(expression.right, scope)
        opcode = BINARY[expression.operator]
        dtype = self._dtype(expression).computes_as
        operand = dtype
        if ir.OPCODES[opcode].kind == "compare":
            operand = self.dtype_of(left).computes_as
        return self.add("t", dtype, opcode, self.cast(left, operand), self.cast(right, operand))

    def _cast(self, expression: ast.Cast, operand: ast.Expression, scope: Scope) -> str:
        dtype = self._dtype(expression)
        if isinstance(operand.type, SizeType):
            return self.size(operand.type.value, dtype)
        return self.cast(self.scalar(operand, scope), dtype)

    def _gather(self, array: ast.Expression, index: ast.Expression, scope: Scope) -> str:
        source = self.context_array(array, scope)
        position = self.cast(self.scalar(index, scope), U32)
        return self.add(source.name, source.dtype, "load_at", position, source=source)

    def _array(self, expression: ast.Expression, scope: Scope) -> str:
        return self._load_or_broadcast(self.context_array(expression, scope))

    def context_array(self, expression: ast.Expression, scope: Scope) -> ir.Value:
        """An array operand as a value of the function, lowered on its own before this sweep."""
        return self.context.materialise(self.context, expression, _without_locals(scope), "t")

    # --- calls -------------------------------------------------------------------------------------------------------

    def _call(self, call: ast.Call, scope: Scope) -> str:
        arguments = [a.value for a in call.arguments if a.name is None]
        named = {a.name: a.value for a in call.arguments if a.name is not None}
        name = call.function
        if name in self.context.functions:
            return self._inline(call, arguments, scope)
        if name in POINTWISE and not _is_reduction(name, arguments, named):
            return self._pointwise(call, arguments, scope)
        if name == "where":
            dtype = self._dtype(call).computes_as
            chosen, then, otherwise = (self.scalar(a, scope) for a in arguments)
            return self.add("t", dtype, "select", chosen, self.cast(then, dtype), self.cast(otherwise, dtype))
        if name == "clamp":
            dtype = self._dtype(call).computes_as
            x, low, high = (self.cast(self.scalar(a, scope), dtype) for a in arguments)
            return self.add("t", dtype, "min", self.add("t", dtype, "max", x, low), high)
        if name == "map":
            bound = [self.scalar(a, scope) for a in arguments[1:]]
            return self.apply(arguments[0], bound, scope)
        if self._is_here(call):
            position_free = self._generate(call, arguments, named, scope)
            if position_free is not None:
                return position_free
        return self._array(call, scope)

    def apply(self, function: ast.Expression, bound: list[str], scope: Scope) -> str:
        """A lambda, a `fn` or a primitive given as a value, applied to statements of this body."""
        if isinstance(function, ast.Lambda):
            return self.scalar(function.body, {**scope, **dict(zip(function.parameters, bound))})
        if not isinstance(function, ast.Name):
            raise InternalError("a function value is a lambda or a name")
        if function.name in self.context.functions:
            return self._function_body(self.context.functions[function.name], list(bound), scope)
        opcode = function.name
        dtype = BOOL if opcode in ("is_finite", "is_nan") else self.dtype_of(bound[0]).computes_as
        if opcode in ("bits", "from_bits"):
            dtype = U32 if opcode == "bits" else F32
            return self.add("t", dtype, opcode, *bound)
        return self.add("t", dtype, opcode, *(self.cast(b, self.dtype_of(bound[0]).computes_as) for b in bound))

    def _pointwise(self, call: ast.Call, arguments: list[ast.Expression], scope: Scope) -> str:
        dtype = self._dtype(call).computes_as
        values = [self.scalar(a, scope) for a in arguments]
        operand = dtype
        if call.function in ("is_finite", "is_nan", "bits"):
            operand = F32
        elif call.function == "from_bits":
            operand = U32
        return self.add("t", dtype, call.function, *(self.cast(v, operand) for v in values))

    def _inline(self, call: ast.Call, arguments: list[ast.Expression], scope: Scope) -> str:
        function = self.context.functions[call.function]
        if any(p.type.shape for p in function.parameters) or function.result.shape:
            return self._array(call, scope)
        return self._function_body(function, [self.scalar(a, scope) for a in arguments], scope)

    def _function_body(self, function: ast.Function, bound: list[str], scope: Scope) -> str:
        inner: dict[str, Binding] = {
            p.name: self.cast(b, self.context.dtype(array_type(p.type.resolved).element))
            for p, b in zip(function.parameters, bound)
        }
        for statement in function.body:
            match statement:
                case ast.Let(name=name, value=value):
                    inner[name] = self.scalar(value, inner)
                case ast.Return(value=value):
                    result = self.context.dtype(array_type(function.result.resolved).element)
                    return self.cast(self.scalar(value, inner), result)
                case _:
                    raise InternalError(f"statement {type(statement).__name__} in fn `{function.name}`")
        raise InternalError(f"fn `{function.name}` has no return")

    def _is_here(self, call: ast.Call) -> bool:
        type_ = call.type
        return isinstance(type_, ArrayType) and self.context.shape(type_.shape) == (self.shape, self.count)

    def _generate(
        self, call: ast.Call, arguments: list[ast.Expression], named: Mapping[str, ast.Expression], scope: Scope
    ) -> str | None:
        """Primitives that make their element from the position alone."""
        match call.function:
            case "iota":
                return self.cast(self.add("i", U32, "position", axis="flat"), self._dtype(call).computes_as)
            case "fill":
                return self.cast(self.scalar(named["value"], scope), self._dtype(call).computes_as)
            case "len":
                return self._length(call, arguments[0], scope)
            case "random.uniform" | "random.normal" | "random.choose" | "sample":
                return self._draw(call, arguments, named, scope)
        return None

    def _length(self, call: ast.Call, array: ast.Expression, scope: Scope) -> str:
        dtype = self._dtype(call)
        if any(isinstance(d, Bounded) and d.origin not in self.context.counts for d in array_type(array.type).shape):
            self.context_array(array, scope)  # its count comes into being with it
        extents, count = self.context.shape(array_type(array.type).shape)
        if count is None:
            return self.size(extents[-1], dtype)
        return self.cast(self.load(ir.Value(name=count, dtype=U32)), dtype)

    def _draw(
        self, call: ast.Call, arguments: list[ast.Expression], named: Mapping[str, ast.Expression], scope: Scope
    ) -> str:
        sampled = self.context_array(arguments[0], scope) if call.function == "sample" else None
        shared = call.function != "sample" and constant_of(named.get("shared"), False) is True
        stream = self.context.next_stream(shared)
        match call.function:
            case "random.uniform":
                bits = constant_of(named.get("bits"), 32)
                return self.add("u", F32, "uniform", stream=stream, shared=shared, bits=bits)
            case "random.normal":
                return self.add("z", F32, "normal", stream=stream, shared=shared)
            case "random.choose":
                extent = self.context.sizes.resolve(size_of(arguments[0]))
                return self.add("j", U32, "choose", stream=stream, shared=shared, extent=extent)
        assert sampled is not None
        position = self.add("j", U32, "sample_index", stream=stream, shared=False, extent=sampled.shape[0])
        return self.add(sampled.name, sampled.dtype, "load_at", position, source=sampled)


def _is_reduction(name: str, arguments: list[ast.Expression], named: Mapping[str, ast.Expression]) -> bool:
    return name in ("min", "max") and (len(arguments) == 1 or "axis" in named)


def constant_of(expression: ast.Expression | None, default: ir.Scalar) -> ir.Scalar:
    """The value of an argument that is written as a literal."""
    match expression:
        case None:
            return default
        case ast.Boolean(value=flag):
            return flag
        case ast.Number(value=number, is_float=is_float):
            return float(number) if is_float else int(number)
        case ast.Unary(operator="-", operand=operand):
            return -constant_of(operand, default)
        case _:
            raise UnsupportedError(f"line {expression.span.line}: this argument needs a literal")


def _without_locals(scope: Scope) -> Scope:
    return {name: binding for name, binding in scope.items() if not isinstance(binding, str)}
