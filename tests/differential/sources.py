"""Small programs, one for each parallel pattern and the types it takes; nobody would send what they send."""

from __future__ import annotations

_SHELL = """compressor probe {{
    feedback none;
{states}
    payload {{
{fields}
    }}
    encode(g: f32[{view}]) {{
{body}
    }}
    decode(p) -> f32[{view}] {{ return fill({view}, value = 0.0); }}
}}
"""


def program(fields: dict[str, tuple[str, str]], prelude: str = "", view: str = "n", states: str = "") -> str:
    """A program that returns each expression as a field of its type; `fields` is name: (type, expression)."""
    declared = "\n".join(f"        {name}: {kind};" for name, (kind, _) in fields.items())
    returned = ", ".join(f"{name}: {expression}" for name, (_, expression) in fields.items())
    body = f"        {prelude}\n        return {{ {returned} }};"
    return _SHELL.format(states=f"    {states}", fields=declared, view=view, body=body)


VECTOR_PROGRAMS = {
    "whole reductions": program(
        {
            "total": ("f32", "sum(g)"), "low": ("f32", "min(g)"), "high": ("f32", "max(g)"), "mean": ("f32", "mean(g)"),
            "std": ("f32", "std(g)"), "norm": ("f32", "norm2(g)"), "some": ("bool", "any(g > 2.0)"),
            "every": ("bool", "all(g < 9.0)"), "count": ("u32", "count(g > 0.0)"), "top": ("u32", "argmax(g)"),
            "bottom": ("u32", "argmin(abs(g))"), "whole": ("i32", "sum(i32(g * 100.0))"),
            "least": ("i32", "min(i32(g * 100.0))"), "most": ("u32", "max(bits(g))"),
            "own": ("f32", "reduce(g, 0.0, |a, b| a + b - a * b)"),
        }
    ),
    "scans": program(
        {
            "sums": ("f32[n]", "cumsum(g)"), "before": ("f32[n]", "cumsum(g, exclusive = true)"),
            "ranks": ("u32[n]", "cumsum(map(|x| x > 0.0 ? u32(1) : u32(0), g), exclusive = true)"),
            "peaks": ("f32[n]", "scan(g, -inf, max)"), "lows": ("i32[n]", "scan(i32(g * 10.0), 1000000, min)"),
        }
    ),
    "selection": program(
        {
            "index": ("u32[k]", "top.index"), "value": ("f32[k]", "top.value"), "small": ("f16[k]", "f16(top.value)"),
            "signed_": ("u32[k]", "signed.index"), "whole": ("u32[k]", "whole.index"), "limit": ("f32", "limit"),
            "coded": ("ascending(n)[k]", "top.index"),
        },
        "size k = max(1, floor(n / 9)); let top = topk(g, k, by = abs); let signed = topk(g, k); "
        "let whole = topk(i32(g * 3.0), k); let limit = kth_largest(g, k);",
    ),
    "more than there are": program(
        {"index": ("u32[k]", "top.index"), "value": ("f32[k]", "top.value"), "limit": ("f32", "kth_largest(g, k)")},
        "size k = n + 3; let top = topk(g, k);",
    ),
    "filter": program(
        {
            "index": ("ascending(n)[<= limit]", "kept.index"), "value": ("f32[len(index)]", "kept.value"),
            "code": ("u3[len(index)]", "u3(abs(kept.value) * 4.0)"), "total": ("f32", "sum(kept.value)"),
        },
        "size limit = max(1, floor(n / 4)); let kept = filter(g, |x| x > 0.3, at_most = limit);",
    ),
    "widths": program(
        {f"w{b}": (f"u{b}[n]", f"u{b}(abs(g) * {2**b / 3})") for b in (*range(1, 17), 32)}
        | {"flag": ("bool[n]", "g > 0.0"), "half": ("f16[n]", "f16(g)"), "brain": ("bf16[n]", "bf16(g)")}
        | {"whole": ("i32[n]", "i32(g * 1e9)"), "wide": ("i64[n]", "i64(g * 1e18)")}
    ),
    "draws": program(
        {
            "u": ("f32[n]", "random.uniform(n)"), "v": ("f32[n]", "random.uniform(n, bits = 16)"),
            "z": ("f32[n]", "random.normal(n, shared = true)"), "p": ("u32[n]", "random.choose(n, n)"),
            "s": ("f32[m]", "sample(g, m)"),
        },
        "size m = floor(n / 2) + 1;",
    ),
    "functions": program(
        {
            "a": ("f32[n]", "exp(g)"), "b": ("f32[n]", "log(abs(g))"), "c": ("f32[n]", "exp2(g) + log2(abs(g))"),
            "d": ("f32[n]", "pow(abs(g), 1.7)"), "e": ("f32[n]", "pow(g, 3.0)"), "f": ("f32[n]", "fma(g, g, 1.0)"),
            "h": ("f32[n]", "round(g * 4.0) + floor(g) - ceil(g) * trunc(g)"), "i": ("f32[n]", "g % 0.7"),
            "j": ("f32[n]", "sqrt(g) + sign(g)"), "l": ("u32[n]", "popcount(bits(g)) + leading_zeros(bits(g))"),
            "m": ("i32[n]", "i32(g * 100.0) / 7 % 5"), "o": ("f32[n]", "min(g, -g) + clamp(g, -0.5, 0.5)"),
        }
    ),
    "sort and scatter": program(
        {
            "up": ("f32[n]", "sort(g)"), "down": ("f32[n]", "sort(g, descending = true)"),
            "back": ("f32[n]", "scatter(n, top.index, top.value)"), "cut": ("f32[k]", "scatter(k, top.index, 1.0)"),
        },
        "size k = max(1, floor(n / 2)); let top = topk(g, k, by = abs);",
    ),
    "narrow sorts": program(
        {
            "half": ("f16[n]", "sort(f16(g))"), "brain": ("bf16[n]", "sort(bf16(g), descending = true)"),
            "code": ("u3[n]", "sort(u3(abs(g) * 4.0))"), "wide": ("i64[n]", "sort(i64(g * 1e18))"),
        }
    ),
}  # fmt: skip

MATRIX_PROGRAMS = {
    "rows": program(
        {
            "total": ("f32[rows]", "sum(g, axis = 1)"), "high": ("f32[rows]", "max(g, axis = 1)"),
            "top": ("u32[rows]", "argmax(g, axis = 1)"), "std": ("f32[rows]", "std(g, axis = 1)"),
            "limit": ("f32[rows]", "kth_largest(g, 3, by = abs)"), "sums": ("f32[rows, cols]", "cumsum(g)"),
            "code": ("u4[rows, cols]", "u4(abs(g) / high * 15.0)"), "whole": ("f32", "norm2(g)"),
        },
        "let high = max(abs(g), axis = 1);", "rows, cols",
    ),
    "row selection": program(
        {
            "index": ("u32[rows, k]", "top.index"), "value": ("f32[rows, k]", "top.value"),
            "coded": ("ascending(cols)[rows, k]", "top.index"), "up": ("f32[rows, cols]", "sort(g)"),
            "back": ("f32[rows, cols]", "scatter(cols, top.index, top.value)"),
            "turned": ("f32[cols, rows]", "transpose(g)"),
        },
        "size k = max(1, floor(cols / 7)); let top = topk(g, k, by = abs);", "rows, cols",
    ),
    "turned": program(
        {
            "half": ("f16[cols, rows]", "transpose(f16(g))"), "code": ("u3[cols, rows]", "transpose(u3(abs(g)))"),
            "sign": ("bool[cols, rows]", "transpose(g < 0.0)"), "whole": ("i32[cols, rows]", "transpose(i32(g * 9.0))"),
            "wide": ("i64[cols, rows]", "transpose(i64(g * 1e18))"), "bits": ("u32[cols, rows]", "transpose(bits(g))"),
        },
        "", "rows, cols",
    ),
    "blocks": program(
        {"norm": ("f32[blocks(48)]", "norm"), "code": ("u2[blocks(48), 48]", "u2(abs(g) / norm * 3.0)")},
        "let norm = norm2(g, axis = 1);", "blocks(48), 48",
    ),
}  # fmt: skip

VECTOR_PROGRAMS["narrow states"] = program(
    {"index": ("ascending(n)[k]", "top.index"), "sum": ("f32[n]", "sum"), "old": ("bool[n]", "old")},
    "size k = max(1, floor(n / 3)); let top = topk(g, k, by = abs); "
    "age = u8(u32(age) + 1); seen = seen || g > 0.5; half = f16(half + g); whole = whole + i64(g * 1e12); "
    "logs = bf16(log(g)); let sum = f32(age) + f32(whole) + half; let old = seen; "
    "clear(age, top.index); clear(seen, top.index); clear(half, top.index); clear(whole, top.index);",
    states="state age: u8[n] = 3; state seen: bool[n]; state half: f16[n] = 1; state whole: i64[n] = -2; "
    "state logs: bf16[n];",
)

#: A selection whose key needs a state that the same pass overwrites, and is itself stored nowhere.
OVERWRITTEN_KEY = program(
    {"index": ("u32[k]", "top.index"), "value": ("f32[k]", "top.value")},
    "size k = max(1, floor(n / 100)); let key = g * 0.5 + s; let top = topk(key, k, by = abs); s = s * 0.25 + 1.0;",
    states="state s: f32[n];",
)
