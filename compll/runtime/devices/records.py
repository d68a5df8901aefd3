"""The batch table: for every segment its record (plan.record_fields) as words, and memory for its temporaries."""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray

from compll.codegen.interpret import size_environment
from compll.codegen.ir import Program
from compll.codegen.plan import KEY_FIELDS, Buffer, KernelPlan, record_fields
from compll.diagnostics import InternalError
from compll.dtypes import DType
from compll.runtime.devices.base import Segment
from compll.sizes import evaluate, extent

ALIGNMENT = 64

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Template:
    """What records of one environment share: their words without pointers and key, and the temporaries' places."""

    words: Words
    temporaries: tuple[tuple[int, int], ...]  # (column, byte offset)
    workspace: int


class Records:
    """Makes the tables of one plan. Pointers are filled in for every call, the rest once per environment."""

    def __init__(self, program: Program, plan: KernelPlan):
        self._program = program
        self._plan = plan
        self._fields = record_fields(plan)
        self._columns = {field.name: i for i, field in enumerate(self._fields)}
        self._handed = [b.name for b in plan.buffers if b.section is None and b.role != "temporary"]
        self._key = self._columns[KEY_FIELDS[0]]
        self._templates: dict[tuple[float, ...], _Template] = {}

    def table(self, segments: Sequence[Segment], workspace: Workspace, turns: Sequence[int] = ()) -> Words:
        """The records of a batch, int64 [segments, fields]. The tensors must outlive the call that uses the table.

        `turns` says how many segments, of one size, run one after the other and share temporaries; without it, each
        has its own.
        """
        templates = [self._template(segment.environment) for segment in segments]
        needed = first_of_turns([template.workspace for template in templates], turns)
        ends = workspace.address(sum(needed)) + np.cumsum(needed, dtype=np.int64)
        table = np.empty((len(segments), len(self._fields)), np.int64)
        for record, segment, template, end in zip(table, segments, templates, ends, strict=True):
            record[:] = template.words
            self._fill(record, segment)
            for column, offset in template.temporaries:
                record[column] = end - template.workspace + offset
        return table

    def addresses(self, record: Words) -> Mapping[str, int]:
        """A record's words by the names of their fields."""
        return {name: int(record[column]) for name, column in self._columns.items()}

    def environment(self, segment: Segment) -> Mapping[str, float]:
        """A segment's sizes, the program's named ones included."""
        return size_environment(self._program, segment.environment)

    def _fill(self, record: Words, segment: Segment) -> None:
        arrays, columns = segment.arrays, self._columns
        for name in self._handed:
            if name not in arrays:
                raise InternalError(f"function `{self._plan.function}` needs the array `{name}`")
            record[columns[name]] = arrays[name].data_ptr()
        for name in ("payload", "previous"):
            if name in arrays and name in columns:
                record[columns[name]] = arrays[name].data_ptr()
        key = segment.key
        record[self._key :] = (key.seed, key.owner, key.step, key.gradient_id, key.base)

    def _template(self, environment: Mapping[str, float]) -> _Template:
        key = tuple(environment.values())
        if key not in self._templates:
            self._templates[key] = self._make_template(size_environment(self._program, environment))
        return self._templates[key]

    def _make_template(self, environment: Mapping[str, float]) -> _Template:
        words = np.zeros(len(self._fields), np.int64)
        words[self._columns["numel"]] = int(environment["numel"])
        for name, size in self._plan.sizes:
            words[self._columns[name]] = extent(size, environment)
        for name, size in self._plan.numbers:
            words[self._columns[name]] = _word(float(evaluate(size, environment)), "<d")
        for parameter in self._plan.parameters:
            words[self._columns[parameter.name]] = parameter_word(environment[parameter.name], parameter.dtype)
        places, end = [], 0
        for buffer in self._plan.buffers:
            if buffer.role == "temporary":
                places.append((self._columns[buffer.name], end))
                end += _aligned(buffer_bytes(buffer, environment))
        return _Template(words, tuple(places), end)


def first_of_turns(sizes: Sequence[int], turns: Sequence[int]) -> list[int]:
    """What each segment adds to memory that those which take turns share: the first its size, the others nothing."""
    if not turns:
        return list(sizes)
    firsts = {0, *accumulate(turns)}
    return [size if at in firsts else 0 for at, size in enumerate(sizes)]


def parameter_word(value: float, dtype: DType) -> int:
    """A parameter as the record stores it: its own width in the low bytes."""
    if dtype.kind == "float":
        return _word(value, "<f") & 0xFFFFFFFF
    return int(value) & 0xFFFFFFFF


def _word(value: float, code: str) -> int:
    return int.from_bytes(struct.pack(code, value), "little", signed=code == "<d")


def element_bytes(dtype: DType) -> int:
    """The bytes of an array element in memory; sub-byte types take one."""
    return max(1, 1 << math.ceil(math.log2(dtype.bits / 8))) if dtype.bits > 8 else 1


def buffer_bytes(buffer: Buffer, environment: Mapping[str, float]) -> int:
    """The bytes of a temporary."""
    return math.prod(extent(size, environment) for size in buffer.shape) * element_bytes(buffer.dtype)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class Workspace:
    """Memory for temporaries on a device: one block, which grows and is kept."""

    def __init__(self, device: torch.device = torch.device("cpu")) -> None:
        self._device = device
        self._memory = torch.empty(0, dtype=torch.uint8, device=device)

    def address(self, size: int) -> int:
        """Where `size` bytes lie that are aligned and uninitialised; what was handed out before is void."""
        if self._memory.numel() < size + ALIGNMENT:
            self._memory = torch.empty(size + ALIGNMENT, dtype=torch.uint8, device=self._device)
        return _aligned(self._memory.data_ptr())

    def at(self, address: int, nbytes: int) -> torch.Tensor:
        """The bytes at an address within what was handed out, u8 [nbytes]."""
        start = address - self._memory.data_ptr()
        return self._memory[start : start + nbytes]


class Workspaces:
    """Workspaces on the CPU to borrow, as many as there ever were borrowers at once; safe from several threads."""

    def __init__(self) -> None:
        self._free: deque[Workspace] = deque()

    @contextmanager
    def borrowed(self) -> Iterator[Workspace]:
        """The one that came back last: its memory is warm."""
        try:
            workspace = self._free.pop()
        except IndexError:
            workspace = Workspace()
        try:
            yield workspace
        finally:
            self._free.append(workspace)
