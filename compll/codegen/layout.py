"""The wire format of a payload: a header of counts, then typed sections at 4-byte-aligned offsets.

Sizes depend on shapes and parameters only. Codings: `raw` (whole bytes per element), `packed` (element i is bits
[i * bits, (i + 1) * bits) of the section, lowest first) and `ascending` (Elias-Fano, see `ascending_geometry`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from compll.codegen.ir import Field, Program
from compll.dtypes import DType
from compll.sizes import Num, Size, apply, product

COUNT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One field on the wire. `offset` and `nbytes` are sizes in bytes; `count_offset` is where its count lies in the
    header and `count_of` the field that carries it, or None; `low_bits` and `low_bytes` describe the first part of an
    ascending section."""

    name: str
    coding: Literal["raw", "packed", "ascending"]
    dtype: DType
    shape: tuple[Size, ...]
    offset: Size
    nbytes: Size
    count_offset: int | None = None
    count_of: str | None = None
    extent: Size | None = None
    low_bits: Size | None = None
    low_bytes: Size | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadLayout:
    """All sections of a program in declared order; `header_bytes` holds one u32 for each count, in field order."""

    header_bytes: int
    sections: tuple[Section, ...]
    nbytes: Size

    def section(self, name: str) -> Section:
        return next(s for s in self.sections if s.name == name)


def payload_layout(program: Program) -> PayloadLayout:
    """Lay out the program's fields."""
    owners = [f.name for f in program.fields if f.count_of == f.name]
    count_offsets = {name: COUNT_BYTES * i for i, name in enumerate(owners)}
    header = COUNT_BYTES * len(owners)
    sections: list[Section] = []
    end: Size = Num(header)
    for field in program.fields:
        section = _section(field, _align4(end), count_offsets)
        sections.append(section)
        end = apply("add", section.offset, section.nbytes)
    return PayloadLayout(header_bytes=header, sections=tuple(sections), nbytes=end)


def _section(field: Field, offset: Size, count_offsets: Mapping[str, int]) -> Section:
    count_offset = count_offsets[field.count_of] if field.count_of else None
    if field.ascending is not None:
        low_bits, low_bytes, nbytes = ascending_geometry(field.shape, field.ascending)
        return Section(
            name=field.name, coding="ascending", dtype=field.dtype, shape=field.shape, offset=offset, nbytes=nbytes,
            count_offset=count_offset, count_of=field.count_of, extent=field.ascending,
            low_bits=low_bits, low_bytes=low_bytes,
        )  # fmt: skip
    coding: Literal["raw", "packed"] = "raw" if field.dtype.bits % 8 == 0 else "packed"
    nbytes = _bytes_of_bits(apply("mul", product(field.shape), Num(field.dtype.bits)))
    return Section(
        name=field.name, coding=coding, dtype=field.dtype, shape=field.shape, offset=offset, nbytes=nbytes,
        count_offset=count_offset, count_of=field.count_of,
    )  # fmt: skip


def ascending_geometry(shape: tuple[Size, ...], extent: Size) -> tuple[Size, Size, Size]:
    """(low_bits, low_bytes, nbytes) of an Elias-Fano section of `shape` = [k] or [rows, k] below `extent`.

    low_bits l = max(0, floor(log2(extent / k))). First the low l bits of all indices, packed, padded to 4 bytes; then
    for each row a bit vector of k + floor(extent / 2^l) + 1 bits, padded to whole bytes, in which bit
    (index_i >> l) + i is set. (Vigna, Quasi-succinct indices, WSDM'13; fixed size.)
    """
    k = shape[-1]
    rows = shape[0] if len(shape) == 2 else Num(1)
    some = apply("max", k, Num(1))
    below = apply("max", extent, Num(1))
    low_bits = apply("max", Num(0), apply("floor", apply("log2", apply("div", below, some))))
    low_bytes = _align4(_bytes_of_bits(apply("mul", product(shape), low_bits)))
    high = apply("add", apply("add", k, apply("shr", extent, low_bits)), Num(1))
    nbytes = apply("add", low_bytes, apply("mul", rows, _bytes_of_bits(high)))
    return low_bits, low_bytes, nbytes


def _bytes_of_bits(bits: Size) -> Size:
    return apply("ceil", apply("div", bits, Num(8)))


def _align4(offset: Size) -> Size:
    return apply("mul", Num(4), apply("ceil", apply("div", offset, Num(4))))
