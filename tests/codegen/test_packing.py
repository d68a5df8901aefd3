"""The wire format against a reader and writer of single bits, and against hostile bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compll.codegen import ir
from compll.codegen.convert import cast, storage
from compll.codegen.layout import payload_layout
from compll.codegen.packing import pack, unpack
from compll.diagnostics import CompllError
from compll.dtypes import BF16, BOOL, F16, F32, I32, I64, U32, DType, uint
from compll.sizes import Num, Size, Var, extent

K, N = Var("k"), Var("n")
RAW = (F32, F16, BF16, I32, U32, I64, uint(8), uint(16))
PACKED = (BOOL, *(uint(b) for b in (1, 2, 3, 4, 5, 7, 9, 12, 15)))


def layout(*fields: ir.Field):
    view = ir.GradientView(kind="flat", shape=(N,), names=("n",))
    program = ir.Program(
        name="p", gradient=view, parameters=(), sizes=(), states=(), fields=fields, traits=(), feedback=False,
        functions=(),
    )  # fmt: skip
    return payload_layout(program)


def bit(payload, offset: int, index: int) -> int:
    return int(payload[offset + index // 8]) >> (index % 8) & 1


def number(payload, offset: int, index: int, bits: int) -> int:
    return sum(bit(payload, offset, index * bits + b) << b for b in range(bits))


def values(dtype: DType, n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.kind == "float":
        return cast(rng.standard_normal(n).astype(np.float32), dtype)
    if dtype.kind == "bool":
        return rng.random(n) < 0.5
    low, high = dtype.limits
    return rng.integers(low, high, n, endpoint=True).astype(storage(dtype))


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 33, 1025])
@pytest.mark.parametrize("dtype", [*RAW, *PACKED], ids=str)
def test_round_trip_and_bits(dtype, n):
    wire = layout(
        ir.Field(name="first", dtype=uint(3), shape=(Num(3),)), ir.Field(name="x", dtype=dtype, shape=(N,))
    )
    fields = {"first": np.array([1, 2, 5], np.uint32), "x": values(dtype, n)}
    payload = pack(wire, {"n": n}, fields, {})
    assert payload.size == extent(wire.nbytes, {"n": n}) == 4 + -(-n * dtype.bits // 8)
    assert [number(payload, 0, i, 3) for i in range(3)] == [1, 2, 5]
    if dtype.kind in ("uint", "bool"):
        assert [number(payload, 4, i, dtype.bits) for i in range(n)] == fields["x"].astype(int).tolist()
    found, counts = unpack(wire, {"n": n}, payload)
    assert counts == {} and found["x"].dtype == fields["x"].dtype
    np.testing.assert_array_equal(found["x"], fields["x"])


@pytest.mark.parametrize(("dtype", "wanted"), [(F32, "0000c07f"), (F16, "007e"), (BF16, "c07f")], ids=str)
def test_a_nan_has_one_spelling(dtype, wanted):
    wire = layout(ir.Field(name="x", dtype=dtype, shape=(Num(2),)))
    x = np.array([0xFFC01234, 0x7F800001], np.uint32).view(np.float32)
    assert pack(wire, {}, {"x": x}, {}).tobytes().hex() == wanted * 2


def test_scalars_lie_at_four_byte_offsets():
    wire = layout(*(ir.Field(name=n, dtype=d, shape=()) for n, d in (("a", BOOL), ("b", F32), ("c", uint(16)))))
    fields = {"a": np.array(True), "b": np.array(1.5, np.float32), "c": np.array(258, np.uint32)}
    payload = pack(wire, {}, fields, {})
    assert payload.tobytes().hex() == "01000000" "0000c03f" "0201"
    assert unpack(wire, {}, payload)[0]["c"].shape == ()


def bounded(ascending: Size | None = N):
    return layout(
        ir.Field(name="value", dtype=F32, shape=(K,), count_of="index"),
        ir.Field(name="index", dtype=U32, shape=(K,), ascending=ascending, count_of="index"),
        ir.Field(name="own", dtype=uint(4), shape=(K,), count_of="own"),
    )


@pytest.mark.parametrize("ascending", [None, N])
def test_what_lies_beyond_a_count_is_zero(ascending):
    wire, environment = bounded(ascending), {"k": 5, "n": 100}
    fields = {
        "value": np.arange(1, 6, dtype=np.float32), "index": np.arange(90, 95, dtype=np.uint32),
        "own": np.arange(1, 6, dtype=np.uint32),
    }  # fmt: skip
    payload = pack(wire, environment, fields, {"index": 3, "own": 2})
    assert payload[:8].view("<u4").tolist() == [3, 2]
    found, counts = unpack(wire, environment, payload)
    assert counts == {"index": 3, "own": 2}
    assert found["value"].tolist() == [1, 2, 3, 0, 0] and found["index"].tolist() == [90, 91, 92, 0, 0]
    assert found["own"].tolist() == [1, 2, 0, 0, 0]
    other = {name: np.where(np.arange(5) < 2, x, x + 1).astype(x.dtype) for name, x in fields.items()}
    counts = {"index": 2, "own": 2}
    again = pack(wire, environment, other, counts)
    assert again.tobytes() == pack(wire, environment, fields, counts).tobytes()


def test_a_count_beyond_the_capacity_is_clamped():
    wire, environment = bounded(), {"k": 5, "n": 100}
    payload = np.full(extent(wire.nbytes, environment), 0xFF, np.uint8)
    found, counts = unpack(wire, environment, payload)
    assert counts == {"index": 5, "own": 5} and found["index"].max() <= 100


def test_another_length_is_refused_by_name():
    with pytest.raises(CompllError, match=r"needs \d+ bytes, got 3"):
        unpack(bounded(), {"k": 5, "n": 100}, np.zeros(3, np.uint8))


# --- ascending -------------------------------------------------------------------------------------------------------


def elias_fano(rows, extent_: int, low_bits: int, low_bytes: int) -> bytes:
    """Section 8 with Python's whole numbers as bit sets."""
    k = len(rows[0])
    every = [index & ((1 << low_bits) - 1) for row in rows for index in row]
    low = sum(bits << (low_bits * i) for i, bits in enumerate(every))
    out = low.to_bytes(low_bytes, "little")
    for row in rows:
        high = sum(1 << ((index >> low_bits) + i) for i, index in enumerate(row))
        out += high.to_bytes(-(-(k + (extent_ >> low_bits) + 1) // 8), "little")
    return out


def ascending(shape: tuple[Size, ...]):
    return layout(ir.Field(name="index", dtype=U32, shape=shape, ascending=N))


@pytest.mark.parametrize(
    ("rows", "k", "n"),
    [(1, 1, 1), (1, 1, 2), (1, 5, 5), (1, 10, 1000), (3, 4, 100), (2, 1, 2**31), (1, 300, 70000), (5, 8, 9), (1, 4, 3)],
)
def test_elias_fano(rows, k, n):
    rng = np.random.default_rng(k)
    drawn = [sorted(rng.choice(n, min(k, n), replace=False)) if n < 10**6 else [n - 1] for _ in range(rows)]
    index = [[int(i) for i in row] + [n] * (k - len(row)) for row in drawn]  # a selection beyond the extent pads with n
    wire = ascending((Num(rows), K))
    (section,) = wire.sections
    environment = {"k": k, "n": n}
    payload = pack(wire, environment, {"index": np.array(index, np.uint32)}, {})
    low_bits, low_bytes = (extent(s, environment) for s in (section.low_bits, section.low_bytes))
    assert payload.tobytes() == elias_fano(index, n, low_bits, low_bytes)
    assert unpack(wire, environment, payload)[0]["index"].tolist() == index


def test_one_per_cent_costs_less_than_nine_bits():
    wire, n = ascending((K,)), 10**6
    assert extent(wire.nbytes, {"k": n // 100, "n": n}) * 8 / (n // 100) < 8.7


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_bytes_decode_to_indices_within_the_extent(data):
    rows, k, n = (data.draw(st.integers(1, m)) for m in (3, 9, 300))
    wire, environment = ascending((Num(rows), K)), {"k": k, "n": n}
    size = extent(wire.nbytes, environment)
    payload = np.frombuffer(data.draw(st.binary(min_size=size, max_size=size)), np.uint8)
    found = unpack(wire, environment, payload)[0]["index"]
    (section,) = wire.sections
    low_bits, low_bytes = (extent(s, environment) for s in (section.low_bits, section.low_bytes))
    per_row = (payload.size - low_bytes) // rows
    for r in range(rows):
        vector = int.from_bytes(payload[low_bytes + r * per_row :][:per_row].tobytes(), "little")
        at = [p for p in range(8 * per_row) if vector >> p & 1][:k]
        lows = [number(payload, 0, r * k + i, low_bits) for i in range(k)]
        wanted = [min((p - i) << low_bits | low, n) for i, (p, low) in enumerate(zip(at, lows, strict=False))]
        assert found[r].tolist() == wanted + [n] * (k - len(at))


def test_indices_out_of_order_or_too_large_do_no_harm():
    wire, environment = ascending((K,)), {"k": 4, "n": 10}
    payload = pack(wire, environment, {"index": np.array([9, 2**32 - 1, 0, 9], np.uint32)}, {})
    assert unpack(wire, environment, payload)[0]["index"].max() <= 10


def test_a_wrong_shape_is_named():
    wire = layout(ir.Field(name="x", dtype=F32, shape=(K,)))
    with pytest.raises(ValueError, match=r"field `x` needs shape \(3,\), got \(2,\)"):
        pack(wire, {"k": 3}, {"x": np.zeros(2, np.float32)}, {})


def test_sections_name_their_count():
    found = {s.name: (s.count_of, s.count_offset) for s in bounded().sections}
    assert found == {"value": ("index", 0), "index": ("index", 0), "own": ("own", 4)}
