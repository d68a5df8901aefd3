"""Matrix operations and collectives."""

from __future__ import annotations

from collections.abc import Callable

from compll.codegen import ir
from compll.codegen.lower.calls import PrimitiveCall, converted
from compll.codegen.lower.context import array_type
from compll.dsl import ast
from compll.dtypes import F32


def matmul(call: PrimitiveCall) -> ir.Value:
    operands = []
    for expression in call.arguments:
        transposed = isinstance(expression, ast.Call) and expression.function == "transpose"
        inner = expression.arguments[0].value if isinstance(expression, ast.Call) and transposed else expression
        operands.append((call.computing(inner), transposed))
    (left, transpose_left), (right, transpose_right) = operands
    shape, _ = call.context.shape(array_type(call.expression.type).shape)
    result = call.context.value(call.wish, F32, shape)
    call.context.emit(
        ir.MatMul(
            result=result, left=left, right=right, transpose_left=transpose_left, transpose_right=transpose_right,
            origin=call.context.origin,
        )
    )  # fmt: skip
    return result


def unary(
    operation: type[ir.Transpose] | type[ir.Orthonormalize] | type[ir.AllReduce],
) -> Callable[[PrimitiveCall], ir.Value]:
    """The lowering of an operation with one operand."""

    def handler(call: PrimitiveCall) -> ir.Value:
        source = call.operand(0)
        shape, count = call.context.shape(array_type(call.expression.type).shape)
        result = call.context.value(call.wish, source.dtype, shape, count)
        call.context.emit(operation(result=result, source=source, origin=call.context.origin))
        return converted(call, result)

    return handler
