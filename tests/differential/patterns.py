"""Programs that between them use every parallel pattern of the language; no published algorithm among them."""

from __future__ import annotations


def probe(view: str, payload: str, body: str) -> str:
    """A program that encodes something and decodes to zeros."""
    decode = f"decode(p) -> f32[{view}] {{ return fill({view}, value = 0.0); }}"
    encode = f"encode(g: f32[{view}]) {{ {body} }}"
    return f"compressor probe {{ feedback none; payload {{ {payload} }} {encode} {decode} }}"


#: name -> (program, whether it needs a matrix)
PATTERNS: dict[str, tuple[str, bool]] = {
    "reductions": (
        probe(
            "n",
            "a: f32; b: f32; c: u32; d: u32; e: f32; f: f32; h: bool; i: bool; j: f32; k: f32; l: i32;",
            """return { a: max(g), b: min(g), c: argmax(g), d: argmin(g), e: norm1(g), f: norm2(g), h: any(g > 1.0),
            i: all(g > -3.0), j: std(g), k: mean(g), l: max(i32(g)) };""",
        ),
        False,
    ),
    "own_reductions": (
        probe(
            "n",
            "a: f32; b: i32; c: u32;",
            """return { a: reduce(g, 0.0, |x, y| x + y * 0.5), b: reduce(i32(g), 0, |x, y| x + y),
            c: reduce(bits(g), 0, |x, y| x ^ y) };""",
        ),
        False,
    ),
    "scans": (
        probe(
            "n",
            "a: f32[n]; b: f32[n]; c: i32[n]; d: u32[n];",
            """return { a: cumsum(g), b: cumsum(abs(g), exclusive = true), c: scan(i32(g), -5, |x, y| max(x, y)),
            d: scan(bits(g), 0, |x, y| x ^ y, exclusive = true) };""",
        ),
        False,
    ),
    "packed": (
        probe(
            "n",
            """a: bool[n]; b: u3[n]; c: u5[n]; d: u12[n]; e: u16[n]; f: f16[n]; h: bf16[n]; i: u8[n]; j: i64[n];
            k: u7[n];""",
            """return { a: g > 0.0, b: u3(abs(g) * 3.0), c: u5(abs(g) * 9.0), d: u12(bits(g)), e: u16(abs(g) * 1000.0),
            f: f16(g), h: bf16(g), i: u8(abs(g) * 50.0), j: i64(g * 100.0), k: u7(abs(g) * 30.0) };""",
        ),
        False,
    ),
    "selections": (
        probe(
            "n",
            "a: u32[k]; b: f32[k]; c: f32; d: i32; e: u32[m]; f: f32[n]; h: f32[n];",
            """size k = max(1, floor(n / 3)); size m = n + 3;
            let top = topk(g, k);
            let more = topk(g, m, by = |x| -x);
            return { a: top.index, b: top.value, c: kth_largest(g, k), d: kth_largest(i32(g), k, by = |x| -x),
            e: more.index, f: sort(g), h: sort(g, descending = true) };""",
        ),
        False,
    ),
    "filters": (
        probe(
            "n",
            "a: u32[<= limit]; b: f32[len(a)]; c: ascending(n)[<= few]; d: f16[len(c)];",
            """size limit = n; size few = max(1, floor(n / 10));
            let positive = filter(g, |x| x > 0.0, at_most = limit);
            let large = filter(g * 2.0, |x| abs(x) > 0.5, at_most = few);
            return { a: positive.index, b: positive.value, c: large.index, d: f16(large.value) };""",
        ),
        False,
    ),
    "gathers": (
        probe(
            "n",
            "a: f32[n]; b: f32[m]; c: f32[n]; d: f32[m];",
            """size m = n + 5;
            let reversed = g[u32(n) - 1 - iota(n)];
            return { a: reversed, b: g[iota(m)], c: scatter(n, random.choose(n, n), cumsum(g)), d: sample(g, m) };""",
        ),
        False,
    ),
    "draws": (
        probe(
            "n",
            "a: f32[n]; b: f32[n]; c: f32[n]; d: u32[n];",
            """return { a: random.uniform(n), b: random.uniform(n, bits = 16), c: random.normal(n),
            d: random.choose(n, n, shared = true) };""",
        ),
        False,
    ),
    "rows": (
        probe(
            "rows, cols",
            """a: f32[rows]; b: f32[rows]; c: u32[rows]; d: f32[rows]; e: f32[rows, cols]; f: f32[rows, cols];
            h: u2[rows, cols];""",
            """let scale = max(abs(g), axis = 1);
            let order = sort(g);
            return { a: scale, b: std(g, axis = 1), c: argmax(g, axis = 1), d: sum(g, axis = 1), e: order,
            f: cumsum(g), h: u2(map(|x, s| abs(x) > 0.5 * s ? 2 : 1, g, scale)) };""",
        ),
        True,
    ),
    "row_selections": (
        probe(
            "rows, cols",
            """a: u32[rows, k]; b: f32[rows, k]; c: f32[rows]; d: ascending(cols)[rows, k]; e: f32[rows, k];
            f: i64[rows]; h: u32[rows, k];""",
            """size k = max(1, floor(cols / 4));
            let top = topk(g, k, by = abs);
            let low = topk(g, k, by = |x| -x);
            return { a: low.index, b: low.value, c: kth_largest(g, k, by = abs), d: top.index, e: top.value,
            f: kth_largest(i64(g * 1e15), k), h: topk(i64(g * -1e15), k).index };""",
        ),
        True,
    ),
    "states": (
        """compressor states {
            state sum: f32[n];
            state count: f32[n];
            payload { index: ascending(n)[k]; value: f32[k]; total: f32; }
            encode(g: f32[n]) {
                size k = max(1, floor(n / 8));
                sum = 0.5 * sum + g;
                count = count + 1.0;
                let top = topk(sum / count, k, by = abs);
                clear(count, top.index);
                sum = sum * 0.75 + count;
                return { index: top.index, value: top.value, total: reduce(sum, 0.0, |x, y| x + y) };
            }
            decode(p) -> f32[n] { return scatter(n, p.index, p.value * p.total); }
        }""",
        False,
    ),
    "loop": (
        """compressor loop {
            param factor: f32 = 0.5 in (0, 1);
            feedback residual;
            payload { low: f32; count: u32; code: u1[n]; }
            encode(g: f32[n]) {
                let low = max(abs(g));
                let kept = g;
                let found = count(abs(g) >= low);
                repeat <= 6 while found < u32(n) / 2 {
                    low = low * factor;
                    kept = map(|x| abs(x) >= low ? x * 0.5 : x, kept);
                    found = count(abs(kept) >= low);
                }
                return { low: low, count: found, code: u1(abs(kept) >= low) };
            }
            decode(p) -> f32[n] { return map(|q| f32(q) * p.low, p.code); }
        }""",
        False,
    ),
}
