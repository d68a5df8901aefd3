"""One sweep as one C++ function: the body over strips of 64 positions, hoisted where it can be, then its sinks."""

from __future__ import annotations

from dataclasses import replace

from compll.codegen import ir
from compll.codegen.emit.cpu_memory import Memory, Strip
from compll.codegen.emit.cpu_sinks import Places, SelectionNeeds, SinkPrinter, is_scalar_sweep
from compll.codegen.emit.cpu_views import CombineView, FunctorView, InnerView, StepView, StripView, SweepView, WalkView
from compll.codegen.emit.environment import render
from compll.codegen.emit.expr import Level, Line, body_lines, compute_ctype, constant, slice_body
from compll.codegen.emit.names import identifier
from compll.codegen.emit.segment import Segment, is_exact
from compll.codegen.plan import Kernel, KernelPlan
from compll.codegen.walks import walk_of
from compll.dtypes import DType


def print_sweep(plan: KernelPlan, segment: Segment, kernel: Kernel, sweep: ir.Sweep) -> str:
    """The function of one sweep."""
    return _SweepPrinter(plan, segment, kernel, sweep).text()


class _SweepPrinter:
    def __init__(self, plan: KernelPlan, segment: Segment, kernel: Kernel, sweep: ir.Sweep):
        self._plan = plan
        self._sweep = sweep
        self._segment = segment
        self._name = function_name(plan, kernel)
        self._results = tuple(r for s in sweep.sinks for r in ir.sink_results(s))
        self._written = frozenset(plan.buffer_of(r).name for r in self._results)
        self._memory = Memory(plan, segment, self._written)
        self._rowwise = len(sweep.shape) == 2 and any(getattr(s, "per_row", False) for s in sweep.sinks)
        self._dtypes = {s.name: s.dtype for s in sweep.body}
        self._strip = Strip(self._memory, sweep.shape, self._rowwise, self._memory.names)
        self._lines = body_lines(sweep.body, self._strip, self._memory.names)
        self._combines: list[str] = []
        self._places = Places()

    def text(self) -> str:
        if is_scalar_sweep(self._sweep):
            return self._scalar()
        self._print_sinks()
        strip = self._evaluate(
            self._strip, tuple(self._lines.values()), (*self._places.arrays,), (*self._places.element,),
            (*self._places.run,),
        )  # fmt: skip
        declarations = (*self._memory.declarations, *self._at_level(Level.UNIFORM))
        if walk_of(self._plan) is not None:
            return self._walk(declarations, strip)
        inner = InnerView(
            team=self._team, captures=self._captures(), rowwise=self._rowwise,
            row_lines=self._at_level(Level.ROW) if self._rowwise else (), places=self._places, strip=strip,
        )  # fmt: skip
        view = SweepView(
            name=self._name, struct=self._segment.struct, comment=self._sweep.origin,
            combines=tuple(self._combines), declarations=declarations,
            rows=self._segment.size(self._sweep.shape[0]) if self._rowwise else "1",
            length=self._length(), rowwise=self._rowwise, inner=render("cpu/strips.cpp.j2", inner),
            prepare=tuple(self._places.prepare), after=tuple(self._places.after),
        )  # fmt: skip
        return render("cpu/sweep.cpp.j2", view)

    def _walk(self, declarations: tuple[str, ...], strip: str) -> str:
        view = WalkView(
            name=self._name, struct=self._segment.struct, comment=self._sweep.origin, declarations=declarations,
            length=self._length(), strip=strip, places=self._places,
        )  # fmt: skip
        return render("cpu/walk.cpp.j2", view)

    @property
    def _team(self) -> str:
        return "team" if self._rowwise else "threads"

    def _evaluate(
        self, strip: Strip, lines: tuple[Line, ...], arrays: tuple[str, ...], stores: tuple[str, ...],
        run: tuple[str, ...],
    ) -> str:  # fmt: skip
        """The text that evaluates `lines` over one strip and stores results at every position."""
        view = StripView(
            rowwise=self._rowwise, runs=strip.by_runs, columns=strip.columns, staging=(*strip.before, *arrays),
            row_lines=() if self._rowwise else tuple(x.declaration for x in lines if x.level == Level.ROW),
            element=(*(x.declaration for x in lines if x.level == Level.ELEMENT), *stores), run=run,
        )  # fmt: skip
        return render("cpu/evaluate.cpp.j2", view).rstrip()

    def _captures(self) -> str:
        """Values are captured by value, so that loops keep them in registers; the sinks' objects by reference."""
        return ", ".join(["=", *(f"&{name}" for name in self._places.objects)])

    def _at_level(self, level: Level) -> tuple[str, ...]:
        return tuple(line.declaration for line in self._lines.values() if line.level == level)

    def _length(self) -> str:
        if self._rowwise:
            return self._segment.size(self._sweep.shape[-1])
        total = self._segment.product(self._sweep.shape)
        return total if self._sweep.count is None else self._memory.count(self._sweep.count, total)

    def _scalar(self) -> str:
        stores = []
        for sink in self._sweep.sinks:
            assert isinstance(sink, ir.Write)
            buffer = self._memory.buffer(sink.result)
            stores.append(self._memory.store(buffer, "0", self._lines[sink.value].name))
        body = [line.declaration for line in self._lines.values()]
        return render(
            "cpu/step.cpp.j2",
            StepView(
                name=self._name, struct=self._segment.struct, comment=self._sweep.origin,
                lines=(*self._memory.declarations, *body, *stores),
            ),
        )  # fmt: skip

    # --- sinks --------------------------------------------------------------------------------------------------------

    def _print_sinks(self) -> None:
        self._length()  # declares the count, if there is one, before anything that uses it
        printer = SinkPrinter(
            self._memory, self._strip, self._places, rowwise=self._rowwise, bounded=self._sweep.count is not None,
            team=self._team, dtypes=self._dtypes, local=lambda name: self._lines[name].name, combine=self._combine,
            selection=SelectionNeeds(sample=self._sample, complete=self._complete),
        )  # fmt: skip
        for sink in self._sweep.sinks:
            printer.add(sink)

    def _combine(self, combine: ir.Combine, dtype: DType, result: str) -> tuple[str, str]:
        """The library's type for a combine, and the expression that makes one."""
        ctype = compute_ctype(dtype)
        simple = {
            "add": f"compll::Add<{ctype}>", "min": f"compll::Min<{ctype}>", "max": f"compll::Max<{ctype}>",
            "and": "compll::And", "or": "compll::Or", "moments": "compll::Moments",
            "argmin": f"compll::Extreme<{ctype}, false>", "argmax": f"compll::Extreme<{ctype}, true>",
        }  # fmt: skip
        if combine.kind != "custom":
            return simple[combine.kind], f"{simple[combine.kind]}{{}}"
        name = identifier(f"{self._name}_{result}")
        self._combines.append(self._custom(combine, dtype, name))
        return name, f"{name}{{segment}}"

    def _custom(self, combine: ir.Combine, dtype: DType, name: str) -> str:
        memory = Memory(self._plan, self._segment, frozenset())
        names = memory.names
        sides = {side: Line(Level.UNIFORM, dtype, names.fresh(side), "") for side in (combine.left, combine.right)}
        lines = body_lines(combine.body, Strip(memory, (), False, names), names, sides)
        body = [line.declaration for key, line in lines.items() if key not in sides]
        assert combine.identity is not None
        return render(
            "cpu/combine.cpp.j2",
            CombineView(
                name=name, struct=self._segment.struct, ctype=compute_ctype(dtype),
                identity=constant(combine.identity, dtype), left=sides[combine.left].name,
                right=sides[combine.right].name, lines=(*memory.declarations, *body),
                result=lines[combine.result].name,
            ),
        )  # fmt: skip

    # --- slices of the body for selections ----------------------------------------------------------------------------

    def _sample(self, top: str, key: str) -> list[str]:
        return self._functor(f"{top}.sample", (key,), self._sweep.body, {})

    def _complete(self, top: str, names: tuple[str, ...]) -> list[str]:
        """How the key and the carried values are read again after the sweep's writes.

        A statement that was written to memory is loaded from there. What still needs memory that was overwritten is
        kept aside by the first pass.
        """
        body = tuple(replace(s, opcode="load", args=(), source=self._copies.get(s.name), attributes=())
                     if s.name in self._copies else s for s in self._sweep.body)  # fmt: skip
        needed = [s for s in slice_body(body, names) if s.name not in self._copies and s.source]
        if any(self._memory.buffer(s.source).name in self._written for s in needed if s.source):
            return self._functor(f"{top}.complete", names, (), {name: self._aside(top, name) for name in names})
        return self._functor(f"{top}.complete", names, body, {})

    @property
    def _copies(self) -> dict[str, ir.Value]:
        """Statements whose exact values the sweep leaves in memory."""
        written: dict[str, ir.Value] = {}
        for sink in self._sweep.sinks:
            if isinstance(sink, ir.Write):
                buffer = self._memory.buffer(sink.result)
                if buffer.section is None and is_exact(buffer.dtype):
                    written[sink.value] = sink.result
        return written

    def _aside(self, top: str, name: str) -> Line:
        """A scratch array that the first pass fills with a statement's values; the line that reads it."""
        array = self._memory.names.fresh(f"{top}_{name}")
        self._places.declare.append(f"compll::Scratch<{compute_ctype(self._dtypes[name])}> {array}(length);")
        self._places.objects.append(array)
        self._places.element.append(f"{array}[first + i] = {self._lines[name].name};")
        return Line(Level.ELEMENT, self._dtypes[name], self._lines[name].name, f"{array}[first + i]")

    def _functor(self, call: str, names: tuple[str, ...], body: ir.Body, known: dict[str, Line]) -> list[str]:
        scope = self._memory.names.child()
        strip = Strip(self._memory, self._sweep.shape, self._rowwise, scope)
        hoisted = (Level.UNIFORM, Level.ROW) if self._rowwise else (Level.UNIFORM,)
        outside = {name: line for name, line in self._lines.items() if line.level in hoisted}
        lines = body_lines(slice_body(body, names), strip, scope, {**outside, **known})
        own = tuple(line for name, line in lines.items() if name not in outside)
        outputs = tuple(scope.fresh(f"{name}_out") for name in names)
        stores = tuple(f"{o}[i] = {lines[n].name};" for n, o in zip(names, outputs))
        view = FunctorView(
            call=call, captures=self._captures(), strip=self._evaluate(strip, own, (), stores, ()),
            parameters="".join(f", {compute_ctype(self._dtypes[n])}* {o}" for n, o in zip(names, outputs)),
        )  # fmt: skip
        return render("cpu/functor.cpp.j2", view).splitlines()


def function_name(plan: KernelPlan, kernel: Kernel) -> str:
    """The C++ function of a kernel, named after its function and itself."""
    return identifier(f"{plan.function}_{kernel.name}")
