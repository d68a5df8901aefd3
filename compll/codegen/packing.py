"""A whole payload to bytes and back, by its layout (docs/numerics.md, section 8).

`unpack` is total: any bytes of the right length give fields, with counts clamped and indices at most their extent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compll import sizes
from compll.codegen.convert import from_bits, storage, to_bits
from compll.codegen.layout import COUNT_BYTES, PayloadLayout, Section
from compll.diagnostics import CompllError

Array = NDArray[Any]
Environment = Mapping[str, float]


def pack(
    layout: PayloadLayout, environment: Environment, fields: Mapping[str, Array], counts: Mapping[str, int]
) -> NDArray[np.uint8]:
    """The payload's bytes, uint8 [nbytes].

    `fields` holds every section by name in its computing type, `counts` the counts of bounded sections by the name of
    the field that carries them. Raises KeyError for what is missing and ValueError for a wrong shape.
    """
    payload = np.zeros(sizes.extent(layout.nbytes, environment), np.uint8)
    for section in layout.sections:
        count = _capacity(section, environment)
        if section.count_offset is not None and section.count_of is not None:
            count = min(counts[section.count_of], count)
            payload[section.count_offset : section.count_offset + COUNT_BYTES] = np.array([count], "<u4").view(np.uint8)
        data = _encode(section, environment, fields[section.name], count)
        start = sizes.extent(section.offset, environment)
        payload[start : start + data.size] = data
    return payload


def unpack(
    layout: PayloadLayout, environment: Environment, payload: NDArray[np.uint8]
) -> tuple[dict[str, Array], dict[str, int]]:
    """(fields, counts) as `pack` takes them. A payload of another length is a CompllError; content never is."""
    needed = sizes.extent(layout.nbytes, environment)
    if payload.size != needed:
        raise CompllError(f"the payload needs {needed} bytes, got {payload.size}")
    fields: dict[str, Array] = {}
    counts: dict[str, int] = {}
    for section in layout.sections:
        count = _capacity(section, environment)
        if section.count_offset is not None and section.count_of is not None:
            header = payload[section.count_offset : section.count_offset + COUNT_BYTES]
            count = counts[section.count_of] = min(int(header.copy().view("<u4")[0]), count)
        start = sizes.extent(section.offset, environment)
        data = payload[start : start + sizes.extent(section.nbytes, environment)]
        fields[section.name] = _decode(section, environment, data, count)
    return fields, counts


def pack_bits(values: Array, bits: int) -> NDArray[np.uint8]:
    """Element i in bits [i * bits, (i + 1) * bits), lowest first; the last byte is filled with zeros."""
    shifts = np.arange(bits, dtype=np.uint64)
    wide: Array = values.astype(np.uint64)[:, None]
    flat: Array = (wide >> shifts) & np.uint64(1)
    return np.packbits(flat.astype(np.uint8).reshape(-1), bitorder="little")


def unpack_bits(data: NDArray[np.uint8], bits: int, count: int) -> Array:
    """The `count` elements that `pack_bits` wrote, as uint64."""
    flat: Array = np.unpackbits(data, count=count * bits, bitorder="little").reshape(count, bits).astype(np.uint64)
    weighted: Array = flat << np.arange(bits, dtype=np.uint64)
    return np.asarray(weighted.sum(axis=1, dtype=np.uint64))


def encode_ascending(index: Array, count: int, extent: int, low_bits: int, low_bytes: int) -> NDArray[np.uint8]:
    """Elias-Fano of u32 [rows, k]; of a bounded section (one row) the first `count` indices."""
    rows, k = index.shape
    value = np.minimum(index.astype(np.uint64), np.uint64(extent))
    value[:, count:] = 0
    low = np.zeros(low_bytes, np.uint8)
    packed = pack_bits((value & np.uint64((1 << low_bits) - 1)).reshape(-1), low_bits)
    low[: packed.size] = packed
    high = np.zeros((rows, _high_bytes(k, extent, low_bits) * 8), np.uint8)
    at = (value >> np.uint64(low_bits)).astype(np.int64) + np.arange(k)
    high[np.arange(rows)[:, None], at[:, :count]] = 1
    return np.concatenate([low, np.packbits(high, axis=1, bitorder="little").reshape(-1)])


def decode_ascending(
    data: NDArray[np.uint8], rows: int, k: int, count: int, extent: int, low_bits: int, low_bytes: int
) -> Array:
    """The u32 [rows, k] that `encode_ascending` wrote; of other bytes some indices, none above `extent`."""
    low = unpack_bits(data, low_bits, rows * k).reshape(rows, k)
    vectors = np.unpackbits(data[low_bytes:].reshape(rows, -1), axis=1, bitorder="little")
    result = np.full((rows, k), extent, np.uint32)
    for row in range(rows):
        at = np.nonzero(vectors[row])[0][:k]
        high: Array = (at - np.arange(at.size)).astype(np.uint64)
        value = (high << np.uint64(low_bits)) | low[row, : at.size]
        result[row, : at.size] = np.minimum(value, np.uint64(extent))
    result[:, count:] = 0
    return result


def _encode(section: Section, environment: Environment, values: Array, count: int) -> NDArray[np.uint8]:
    shape = _shape(section, environment)
    if values.shape != shape:
        raise ValueError(f"field `{section.name}` needs shape {shape}, got {values.shape}")
    if section.coding == "ascending":
        rows, k = (1, *shape)[-2:]
        extent, low_bits, low_bytes = _geometry(section, environment)
        return encode_ascending(values.reshape(rows, k), count, extent, low_bits, low_bytes)
    bits = to_bits(values, section.dtype).reshape(-1).copy()
    bits[count:] = 0
    if section.coding == "packed":
        return pack_bits(bits, section.dtype.bits)
    width = section.dtype.bits // 8
    return np.ascontiguousarray(bits.astype(f"<u{width}")).view(np.uint8)


def _decode(section: Section, environment: Environment, data: NDArray[np.uint8], count: int) -> Array:
    shape = _shape(section, environment)
    total = int(np.prod(shape, dtype=np.int64))
    if section.coding == "ascending":
        rows, k = (1, *shape)[-2:]
        extent, low_bits, low_bytes = _geometry(section, environment)
        return decode_ascending(data, rows, k, count, extent, low_bits, low_bytes).reshape(shape)
    if section.coding == "packed":
        bits = unpack_bits(data, section.dtype.bits, total)
    else:
        bits = data.copy().view(f"<u{section.dtype.bits // 8}")
    values = from_bits(bits, section.dtype).astype(storage(section.dtype))
    values[count:] = 0
    return values.reshape(shape)


def _capacity(section: Section, environment: Environment) -> int:
    shape = _shape(section, environment)
    return shape[-1] if section.coding == "ascending" else int(np.prod(shape, dtype=np.int64))


def _geometry(section: Section, environment: Environment) -> tuple[int, int, int]:
    parts = (section.extent, section.low_bits, section.low_bytes)
    extent, low_bits, low_bytes = (sizes.extent(p, environment) for p in parts if p is not None)
    return extent, low_bits, low_bytes


def _high_bytes(k: int, extent: int, low_bits: int) -> int:
    return -(-(k + (extent >> low_bits) + 1) // 8)


def _shape(section: Section, environment: Environment) -> tuple[int, ...]:
    return tuple(sizes.extent(s, environment) for s in section.shape)
