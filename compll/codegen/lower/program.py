"""A whole compressor -> `ir.Program` with `encode`, `decode` and the initial values of its states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compll.codegen import ir
from compll.codegen.lower.arrays import lower_array
from compll.codegen.lower.calls import write
from compll.codegen.lower.context import FIRST_INITIAL_STREAM, Binding, Context, Sizes, array_type, size_of
from compll.codegen.lower.scalars import Builder
from compll.codegen.lower.statements import Returned, copy, lower_body
from compll.codegen.specialize import holds, static_parameters
from compll.diagnostics import InternalError
from compll.dsl import ast
from compll.dsl.types import ArrayType, Bounded, SizeType
from compll.dtypes import BOOL, F32, I32, U32, DType
from compll.sizes import Num, Size


def lower(
    module: ast.Module, values: Mapping[str, float | int | bool], alternatives: tuple[int, ...] = ()
) -> ir.Program:
    """Lower a checked module for given parameter values.

    `alternatives` chooses one type for each conditional payload field, in order of declaration.
    """
    return _ProgramLowering(module, values, alternatives).program()


class _ProgramLowering:
    def __init__(
        self, module: ast.Module, values: Mapping[str, float | int | bool], alternatives: tuple[int, ...]
    ) -> None:
        self.compressor = module.compressor
        self.values = values
        static = static_parameters(module)
        self.constants = {p.name: values[p.name] for p in self.compressor.params if p.name in static}
        self.parameters = {p.name: _parameter_dtype(p) for p in self.compressor.params if p.name not in static}
        self.sizes = Sizes(fixed={name: Num(float(value)) for name, value in self.constants.items()})
        self.field_types = self._chosen(alternatives)
        self.states: dict[str, tuple[DType, tuple[Size, ...]]] = {}
        self.fields: tuple[ir.Field, ...] = ()

    def program(self) -> ir.Program:
        compressor = self.compressor
        gradient = self._gradient(compressor.encode)
        encode = self._encode(gradient)
        functions = [encode]
        if compressor.decode is not None:
            functions.append(self._decode(compressor.decode))
        specs = []
        for position, state in enumerate(compressor.states):
            dtype, shape = self.states[state.name]
            initial = f"initial_{state.name}" if state.initial is not None else None
            specs.append(ir.StateSpec(name=state.name, dtype=dtype, shape=shape, initial=initial))
            if state.initial is not None:
                functions.append(self._initial(state, state.initial, FIRST_INITIAL_STREAM + position))
        return ir.Program(
            name=compressor.name,
            gradient=gradient,
            parameters=tuple(ir.Parameter(name=n, dtype=d) for n, d in self.parameters.items()),
            sizes=tuple(self.sizes.named),
            states=tuple(specs),
            fields=self.fields,
            traits=tuple(t.name for t in compressor.traits if holds(t.condition, self.values)),
            feedback=self._feedback(),
            functions=tuple(functions),
        )

    def _feedback(self) -> bool:
        feedback = self.compressor.feedback
        return feedback is not None and feedback.kind == "residual" and holds(feedback.condition, self.values)

    def _chosen(self, alternatives: tuple[int, ...]) -> dict[str, ast.TypeExpression]:
        choices = iter(alternatives)
        chosen = {}
        for field in self.compressor.payload:
            position = next(choices, 0) if len(field.alternatives) > 1 else 0
            chosen[field.name] = field.alternatives[position][1]
        return chosen

    def _context(self, first_stream: int = 0) -> Context:
        return Context(
            materialise=lower_array,
            functions={f.name: f for f in self.compressor.functions},
            constants=self.constants,
            parameters=self.parameters,
            sizes=self.sizes,
            first_stream=first_stream,
        )

    # --- encode ------------------------------------------------------------------------------------------------------

    def _gradient(self, encode: ast.Encode) -> ir.GradientView:
        extents = encode.type.shape
        shape = tuple(self.sizes.resolve(size_of(e.size)) for e in extents)
        names = tuple(e.size.name if isinstance(e.size, ast.Name) else None for e in extents)
        if any(isinstance(e.size, ast.Call) and e.size.function == "blocks" for e in extents):
            return ir.GradientView(kind="blocks", shape=shape, names=(None,) * len(shape))
        return ir.GradientView(kind="flat" if len(shape) == 1 else "matrix", shape=shape, names=names)

    def _encode(self, view: ir.GradientView) -> ir.Function:
        context = self._context()
        gradient = context.value(self.compressor.encode.gradient, F32, view.shape)
        inputs = [ir.Port(role="gradient", name="gradient", value=gradient)]
        scope: dict[str, Binding] = {self.compressor.encode.gradient: gradient}
        states = {}
        for state in self.compressor.states:
            declared = array_type(state.type.resolved)
            shape, _ = context.shape(declared.shape)
            self.states[state.name] = (context.dtype(declared.element), shape)
            states[state.name] = context.value(state.name, *self.states[state.name])
            scope[state.name] = states[state.name]
            inputs.append(ir.Port(role="state", name=state.name, value=states[state.name]))
        returned = lower_body(context, self.compressor.encode.body, scope)
        outputs = _Outputs(context, inputs)
        self._return_fields(context, outputs, returned)
        for name, old in states.items():
            new = scope[name]
            if isinstance(new, ir.Value) and new != old:
                outputs.add("state", name, new)
        for cut in context.cuts:
            outputs.add("cut", cut.name, cut)
        return ir.Function(
            name="encode", inputs=tuple(inputs), operations=tuple(context.operations), outputs=tuple(outputs.ports)
        )

    def _return_fields(self, context: Context, outputs: _Outputs, returned: Returned) -> None:
        if isinstance(returned, ir.Value):
            outputs.add("out", "out", _as_dtype(context, returned, F32, "out"))
            return
        if returned is None:
            raise InternalError("encode returns nothing")
        self.fields = tuple(self._field(context, f.name) for f in self.compressor.payload)
        counts: dict[str, ir.Value] = {}
        for field in self.fields:
            value = returned[field.name]
            if field.count_of == field.name:
                counts[field.name] = outputs.own(_count_of(context, value), field.name)
            value = _as_dtype(context, value, field.dtype, field.name)
            if field.count_of and value.count != counts[field.count_of].name:
                value = _counted(context, value, counts[field.count_of], field.name)
            outputs.add("field", field.name, value)
            if field.count_of == field.name:
                outputs.ports.append(ir.Port(role="count", name=field.name, value=counts[field.name]))

    def _field(self, context: Context, name: str) -> ir.Field:
        written = self.field_types[name]
        declared = array_type(written.resolved)
        count_of = None
        extents: list[Size] = []
        for dimension in declared.shape:
            if isinstance(dimension, Bounded):
                count_of = dimension.origin
                dimension = dimension.limit
            extents.append(self.sizes.resolve(dimension))
        ascending = None
        if written.ascending is not None and isinstance(written.ascending.type, SizeType):
            ascending = self.sizes.resolve(written.ascending.type.value)
        dtype = context.dtype(declared.element)
        return ir.Field(name=name, dtype=dtype, shape=tuple(extents), ascending=ascending, count_of=count_of)

    # --- decode and initial states -----------------------------------------------------------------------------------

    def _decode(self, decode: ast.Decode) -> ir.Function:
        context = self._context()
        inputs: list[ir.Port] = []
        record: dict[str, ir.Value] = {}
        for field in self.fields:
            if field.count_of == field.name:
                count = context.value(f"{field.name}_count", U32)
                context.counts[field.name] = count.name
                inputs.append(ir.Port(role="count", name=field.name, value=count))
        for field in self.fields:
            bound = context.counts[field.count_of] if field.count_of else None
            record[field.name] = context.value(field.name, field.dtype, field.shape, bound)
            inputs.append(ir.Port(role="field", name=field.name, value=record[field.name]))
        returned = lower_body(context, decode.body, {decode.payload: record})
        if not isinstance(returned, ir.Value):
            raise InternalError("decode returns no array")
        outputs = _Outputs(context, inputs)
        outputs.add("out", "out", _as_dtype(context, returned, F32, "out"))
        return ir.Function(
            name="decode", inputs=tuple(inputs), operations=tuple(context.operations), outputs=tuple(outputs.ports)
        )

    def _initial(self, state: ast.State, initial: ast.Expression, stream: int) -> ir.Function:
        context = self._context(stream)
        dtype, shape = self.states[state.name]
        context.origin = " ".join(state.span.text.split())
        builder = Builder(context, shape, None)
        scalar = builder.cast(builder.scalar(_with_shape(initial, state), {}), dtype)
        outputs = _Outputs(context, [])
        outputs.add("state", state.name, write(builder, scalar, state.name))
        return ir.Function(
            name=f"initial_{state.name}", inputs=(), operations=tuple(context.operations), outputs=tuple(outputs.ports)
        )


class _Outputs:
    """Output ports; each gets a value that an operation defines and that no other port has."""

    def __init__(self, context: Context, inputs: list[ir.Port]) -> None:
        self.context = context
        self.ports: list[ir.Port] = []
        self._taken = [port.value for port in inputs]

    def add(self, role: ir.Role, name: str, value: ir.Value) -> None:
        self.ports.append(ir.Port(role=role, name=name, value=self.own(value, name)))

    def own(self, value: ir.Value, name: str) -> ir.Value:
        """The value, or a copy of it where another port has it."""
        if value in self._taken:
            value = copy(self.context, value, name)
        self._taken.append(value)
        return value


def _parameter_dtype(parameter: ast.Parameter) -> DType:
    return {"bool": BOOL, "i32": I32, "u32": U32}.get(parameter.element.name, F32)


def _as_dtype(context: Context, value: ir.Value, dtype: DType, wish: str) -> ir.Value:
    if value.dtype == dtype:
        return value
    builder = Builder(context, value.shape, value.count)
    return write(builder, builder.cast(builder.load(value), dtype), wish)


def _count_of(context: Context, value: ir.Value) -> ir.Value:
    """The count of a bounded array; an array that is exactly as long as its bound counts all of it."""
    if value.count is not None:
        return ir.Value(name=value.count, dtype=U32)
    builder = Builder(context, (), None)
    return write(builder, builder.size(value.shape[-1], U32), "count")


def _counted(context: Context, value: ir.Value, count: ir.Value, wish: str) -> ir.Value:
    """The same elements under another count of the same value."""
    builder = Builder(context, value.shape, count.name)
    return write(builder, builder.load(value), wish)


def _with_shape(initial: ast.Expression, state: ast.State) -> ast.Expression:
    """An initial draw without dimensions takes the state's."""
    if isinstance(initial, ast.Call) and isinstance(initial.type, ArrayType) and not initial.type.shape:
        return replace(initial, type=state.type.resolved)
    return initial
