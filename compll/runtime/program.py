"""A checked program and everything about it that is worked out once: compilations by payload types and gradient dtype,
sizes by shape, loaded functions by device. Knows tensors' dtypes, but no tensor."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from threading import RLock

import torch

from compll.codegen import ir
from compll.codegen.driver import Compilation
from compll.codegen.extents import check_extents
from compll.codegen.interpret import size_environment
from compll.codegen.positions import check_positions
from compll.codegen.specialize import choose_alternatives, environment, static_parameters
from compll.diagnostics import CompllError, SourceFile
from compll.dsl import ast
from compll.dsl.check import check
from compll.dsl.parse import parse
from compll.dtypes import DType
from compll.runtime.devices.base import Device, LoadedFunction, LoadedMerge
from compll.sizes import extent, product

GRADIENT_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}

#: The tensor type that holds an element type of the language; sub-byte types lie one in a byte outside payloads.
TENSOR_DTYPES = {
    "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32, "i64": torch.int64,
    "u32": torch.uint32, "bool": torch.bool,
}  # fmt: skip

Values = Mapping[str, float | int | bool]

#: Of a gradient without elements, which no program sees: sizes are those of this shape.
ANY_SHAPE = torch.Size((64, 64))


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLayout:
    """One state of a gradient; `initial` is the function that fills it, or None for zeros."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    initial: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionLayout:
    """One typed section of a payload in bytes; `dtype` is None where no tensor type reads it (packed, ascending)."""

    name: str
    offset: int
    nbytes: int
    dtype: torch.dtype | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """A program for one shape, gradient dtype and set of parameter values.

    `payload_nbytes` is 0 for a gradient without elements, whose environment is another shape's: no program sees it. A
    program without payload sends its f32 result.
    """

    compilation: Compilation
    environment: Mapping[str, float]
    numel: int
    payload_nbytes: int
    header_bytes: int
    states: tuple[StateLayout, ...]
    sections: tuple[SectionLayout, ...]

    @property
    def has_payload(self) -> bool:
        return bool(self.compilation.program.fields)


class Program:
    """A checked source with its caches; shared by all compressors made of it. Safe to use from several threads."""

    def __init__(self, source: SourceFile) -> None:
        self.module, self.warnings = check(parse(source))
        self.source_hash = hashlib.sha256(source.text.encode()).hexdigest()
        self._static = static_parameters(self.module)
        self._lock = RLock()
        self._compilations: dict[object, Compilation] = {}
        self._sized: dict[object, Sized] = {}
        self._functions: dict[object, LoadedFunction] = {}
        self._merges: dict[object, LoadedMerge] = {}

    @property
    def compressor(self) -> ast.Compressor:
        return self.module.compressor

    @property
    def name(self) -> str:
        return self.module.compressor.name

    def sized(self, shape: torch.Size, dtype: torch.dtype, values: Values, defaults: Values) -> Sized:
        """The program for this shape and dtype; `defaults` stand in for parameters that stay arguments of kernels, so
        that values which change from step to step share one compilation. Raises CompllError for another dtype."""
        if dtype not in GRADIENT_DTYPES:
            allowed = ", ".join(str(d) for d in GRADIENT_DTYPES)
            raise CompllError(f"compressor `{self.name}` needs a gradient of {allowed}, got {dtype}")
        key = (shape, dtype, tuple(values.items()))
        with self._lock:
            if key not in self._sized:
                self._sized[key] = self._make_sized(shape, dtype, values, defaults)
            return self._sized[key]

    def _make_sized(self, shape: torch.Size, dtype: torch.dtype, values: Values, defaults: Values) -> Sized:
        numel = math.prod(shape)
        variables = environment(self.module, tuple(shape) if numel else tuple(ANY_SHAPE), values)
        folded = self._folded(values, defaults)
        alternatives = choose_alternatives(self.module, variables)
        if numel:
            check_positions(self.module, alternatives, variables)
        compilation = self._compilation(folded, alternatives, GRADIENT_DTYPES[dtype])
        if numel:
            check_extents(compilation.program, size_environment(compilation.program, variables))
        sections, header, nbytes = tuple(_sections(compilation, variables)), 0, 4 * numel
        if compilation.program.fields:
            header, nbytes = compilation.layout.header_bytes, extent(compilation.layout.nbytes, variables)
        return Sized(
            compilation=compilation,
            environment=variables,
            numel=numel,
            payload_nbytes=nbytes if numel else 0,
            header_bytes=header,
            states=tuple(_states(compilation.program, variables, numel)),
            sections=sections if numel else (),
        )

    def at_any_shape(self, values: Values, defaults: Values) -> ir.Program:
        """What is the same at every shape: traits, feedback, collectives, names. Alternatives are the first ones."""
        alternatives = tuple(0 for field in self.compressor.payload if len(field.alternatives) > 1)
        with self._lock:
            return self._compilation(self._folded(values, defaults), alternatives, "f32").program

    def _folded(self, values: Values, defaults: Values) -> tuple[tuple[str, float | int | bool], ...]:
        return tuple((name, values[name] if name in self._static else defaults[name]) for name in values)

    def _compilation(
        self, values: tuple[tuple[str, float | int | bool], ...], alternatives: tuple[int, ...], gradient_dtype: str
    ) -> Compilation:
        key = (values, alternatives, gradient_dtype)
        if key not in self._compilations:
            self._compilations[key] = Compilation(self.module, values, alternatives, gradient_dtype)
        return self._compilations[key]

    def function(self, device: Device, compilation: Compilation, name: str) -> LoadedFunction:
        """A function of the compilation, loaded on the device on first use."""
        key = (device.name, id(compilation), name)  # compilations live as long as this cache
        with self._lock:
            if key not in self._functions:
                self._functions[key] = device.load(compilation, name)
            return self._functions[key]

    def merge(self, device: Device, compilation: Compilation) -> LoadedMerge:
        """What adds up payloads of the compilation, loaded on the device on first use."""
        key = (device.name, id(compilation))
        with self._lock:
            if key not in self._merges:
                self._merges[key] = device.load_merge(compilation)
            return self._merges[key]

    def round_sizes(self, device: Device, sized: Sized, name: str) -> tuple[int, ...]:
        """How many elements each collective of a function reduces, in order; none for a gradient without elements."""
        if not sized.numel:
            return ()
        sizes = size_environment(sized.compilation.program, sized.environment)
        values = self.function(device, sized.compilation, name).exchanged
        return tuple(extent(product(value.shape), sizes) for value in values)


def _states(program: ir.Program, variables: Mapping[str, float], numel: int) -> Iterator[StateLayout]:
    for spec in program.states:
        shape = tuple(extent(size, variables) for size in spec.shape) if numel else (0,)
        yield StateLayout(name=spec.name, shape=shape, dtype=_tensor_dtype(spec.dtype), initial=spec.initial)


def _sections(compilation: Compilation, variables: Mapping[str, float]) -> Iterator[SectionLayout]:
    if not compilation.program.fields:
        yield SectionLayout(name="result", offset=0, nbytes=4 * int(variables["numel"]), dtype=torch.float32)
        return
    for section in compilation.layout.sections:
        yield SectionLayout(
            name=section.name,
            offset=extent(section.offset, variables),
            nbytes=extent(section.nbytes, variables),
            dtype=_tensor_dtype(section.dtype) if section.coding == "raw" else None,
        )


def _tensor_dtype(dtype: DType) -> torch.dtype:
    narrow = torch.uint8 if dtype.bits <= 8 else torch.uint16
    return TENSOR_DTYPES.get(dtype.name, narrow)


def reduces_inside(program: ir.Program) -> bool:
    """Whether encode has a collective of its own, so that it takes several rounds."""
    return any(isinstance(o, ir.AllReduce) for f in program.functions for o in ir.with_inner(f.operations))
