"""Compressors from the literature that do not ship, each of another shape: what a user may well write tomorrow."""

from __future__ import annotations

COMPRESSORS = {
    "drive": """// DRIVE: random signs, Walsh-Hadamard, signs times one scale.
compressor drive {
    trait shared_seed;
    payload {
        scale: f32;
        code: u1[m];
    }
    encode(g: f32[n]) {
        size m = 1 << ceil(log2(n));
        let flip = random.uniform(m, shared = true);
        let y = map(|i, u| u < 0.5 ? -g[i] : g[i], iota(m), flip);
        let half = u32(1);
        repeat <= 31 while half < u32(m) {
            y = map(|i| (i & half) == 0 ? y[i] + y[i ^ half] : y[i ^ half] - y[i], iota(m));
            half = half * 2;
        }
        let length = norm1(y);
        return { scale: length > 0.0 ? norm2(y) / length * norm2(y) : 0.0, code: u1(y < 0.0) };
    }
    decode(p) -> f32[n] {
        let flip = random.uniform(m, shared = true);
        let y = map(|q| q == 1 ? -1.0 : 1.0, p.code);
        let half = u32(1);
        repeat <= 31 while half < u32(m) {
            y = map(|i| (i & half) == 0 ? y[i] + y[i ^ half] : y[i ^ half] - y[i], iota(m));
            half = half * 2;
        }
        let back = map(|v, u| (u < 0.5 ? -v : v) * p.scale / f32(m), y, flip);
        return back[iota(n)];
    }
}
""",
    "cocktail": """// CocktailSGD: random choice, then top-k of it, then four bits.
compressor cocktail {
    param random_ratio: f32 = 0.2 in (0, 1];
    param top_ratio: f32 = 0.1 in (0, 1];
    param bits: i32 = 4 in [2, 8];
    feedback residual;
    trait shared_seed;
    payload {
        scale: f32;
        index: ascending(m)[k];
        code: uint<bits>[k];
    }
    encode(g: f32[n]) {
        size m = max(1, floor(random_ratio * n));
        size k = max(1, floor(top_ratio * m));
        let at = random.choose(n, m, shared = true);
        let top = topk(g[at], k, by = abs);
        let half = f32((1 << bits) / 2 - 1);
        let scale = max(abs(top.value));
        let code = map(|x| scale > 0.0 ? round(x / scale * half) + half : half, top.value);
        return { scale: scale, index: top.index, code: uint<bits>(code) };
    }
    decode(p) -> f32[n] {
        let at = random.choose(n, m, shared = true);
        let half = f32((1 << bits) / 2 - 1);
        return scatter(n, at[p.index], map(|q| (f32(q) - half) / half * p.scale, p.code));
    }
}
""",
    "histogram": """// A threshold from a histogram of exponents: a power of two above which at least k elements lie.
compressor histogram {
    param ratio: f32 = 0.03 in (0, 1];
    feedback residual;
    trait zero_preserving;
    payload {
        edge: u8;
        index: ascending(n)[<= limit];
        value: bf16[len(index)];
    }
    encode(g: f32[n]) {
        size k = max(1, floor(ratio * n));
        size limit = min(n, 4 * k);
        let bin = sort(bits(abs(g)) >> 23, descending = true);
        let new = map(|i| i == 0 || bin[i] != bin[i - 1], iota(n));
        let heads = filter(new, |b| b, at_most = 256);
        let level = bin[heads.index];
        let many = map(|i| i + 1 < len(heads.index) ? heads.index[i + 1] : u32(n), iota(256));
        let first = argmax(map(|c| c >= u32(k) ? 1 : 0, many));
        let edge = level[first];
        let kept = filter(g, |x| (bits(x) >> 23 & 0xff) >= edge && x != 0.0, at_most = limit);
        return { edge: u8(edge), index: kept.index, value: bf16(kept.value) };
    }
    decode(p) -> f32[n] { return scatter(n, p.index, f32(p.value)); }
}
""",
    "quartiles": """// A codebook of quantiles for each row, and two bits an element.
compressor quartiles {
    feedback residual;
    payload {
        book: f16[rows, 4];
        code: u2[rows, cols];
    }
    encode(g: f32[rows, cols]) {
        let order = sort(g);
        let at = map(|i| u32((2 * i + 1) * u32(cols) / 8), cumsum(fill(rows, 4, value = u32(1)), exclusive = true));
        let book = f16(order[at]);
        let first = sum(book[fill(rows, 1, value = u32(0))], axis = 1);
        let second = sum(book[fill(rows, 1, value = u32(1))], axis = 1);
        let third = sum(book[fill(rows, 1, value = u32(2))], axis = 1);
        let fourth = sum(book[fill(rows, 1, value = u32(3))], axis = 1);
        let code = map(|x, a, b, c, d| (2.0 * x > a + b ? 1 : 0) + (2.0 * x > b + c ? 1 : 0)
            + (2.0 * x > c + d ? 1 : 0), g, first, second, third, fourth);
        return { book: book, code: u2(code) };
    }
    decode(p) -> f32[rows, cols] { return f32(p.book[p.code]); }
}
""",
    "power_sign": """// Rank-one power iteration, warm-started, and one-bit signs of what is left.
compressor power_sign {
    param steps: i32 = 3 in [1, 20];
    feedback residual;
    state v: f32[cols] = 1.0;
    payload {
        left: f32[rows];
        right: f32[cols];
        rest: f32[rows];
        sign: bool[rows, cols];
    }
    fn spread(v: f32[w], h: f32[t, w]) -> f32[t, w] {
        return transpose(map(|x, s| s, transpose(h), v));
    }
    encode(g: f32[rows, cols]) {
        let u = fill(rows, value = 0.0);
        let right = v;
        let moved = 1.0;
        repeat <= steps while moved > 1e-6 {
            let y = sum(g * spread(right, g), axis = 1);
            let length = norm2(y);
            u = map(|x| length > 0.0 ? x / length : 0.0, y);
            let next = sum(transpose(g * u), axis = 1);
            moved = norm2(next - right);
            right = next;
        }
        v = map(|x| is_finite(x) && norm2(right) > 0.0 ? x / norm2(right) : 1.0, right);
        let left = g - spread(right, g) * u;
        return { left: u, right: right, rest: mean(abs(left), axis = 1), sign: left < 0.0 };
    }
    decode(p) -> f32[rows, cols] {
        let wide = spread(p.right, f32(p.sign));
        return map(|b, w, l, r| w * l + (b ? -r : r), p.sign, wide, p.left, p.rest);
    }
}
""",
}
