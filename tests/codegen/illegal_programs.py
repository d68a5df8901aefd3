"""One legal program in text form, and for every rule of the verifier a change that breaks that rule alone.

Each entry of ILLEGAL: the text to replace, its replacement, a pattern of the complaint.
"""

from __future__ import annotations

LEGAL = """
program legal
gradient matrix [rows, cols] named rows, cols
parameter gain: f32
size n = (rows * cols)
size k = max(1, floor((n / 8)))
state q: f32[rows, cols] = initial_q
field index: u32[k] ascending(n) counted by index
field value: f32[k] counted by index
field code: u2[rows, cols]

function encode {
    in gradient g = %g: f32[rows, cols]
    in state q = %q: f32[rows, cols]
    in residual r = %r: f32[rows, cols]
    sweep [rows, cols] {
        x: f32 = load %g
        c: f32 = const value=1.5
        i: i32 = const value=-3
        h: u32 = const value=7
        y: bool = const value=true
        u: f32 = uniform stream=0 shared=false bits=16
        z: u32 = choose stream=0 shared=true extent=[n]
        p: f32 = param name="gain"
        s: u32 = size value=[k]
        at: u32 = position axis="column"
        m: f32 = mul x c
        lo: bool = lt x c
        w: f32 = select lo x c
        sh: u32 = shl h at
        e: f32 = exp x
        nan: bool = is_nan x
        t: u2 = cast x
        both: bool = and lo nan
        f: f32 = fma x c m
        => %a: f32[rows, cols] = write(w)
        => %codes: u2[rows, cols] = write(t)
        => %sum: f32[rows] = fold add(x) per row
        => %mean: f64, %m2: f64 = fold moments(x)
        => %all: bool = fold and(lo)
        => %best: u32 = fold argmax(x)
        => %own: f32 = fold custom(x) identity=0.0 combining l, r into o {
            o: f32 = max l r
        }
        => %run: f32[rows, cols] = scan add(x) per row
        => %top: u32[rows, k], %tops: f32[rows, k] = top(x, k) per row carrying x
        => %kth: f32[rows] = kth(x, k) per row
        => %dense: f32[rows, n] = put(at, x)
        => %onto: f32[rows, cols] = put(at, x) onto %q
    }
    sweep [rows, cols] {
        x: f32 = load %a
        v: f32 = load %sum
        at: u32 = position axis="column"
        b: f32 = load_at at %g
        d: f32 = load %own
        => %new: f32[rows, cols] = write(b)
    }
    sweep [n] {
        y: bool = const value=true
        x: f32 = const value=0.5
        => %index: u32[k; %count], %count: u32, %cut: u32, %kept: f32[k; %count] = keep(y, k) carrying x
    }
    sweep [k; %count] {
        x: f32 = load %kept
        => %value: f32[k; %count] = write(x)
    }
    %sorted: f32[rows, cols] = sort %a
    %product: f32[rows, rows] = matmul %a %g transpose_right
    %turned: f32[cols, rows] = transpose %a
    %basis: f32[cols, rows] = orthonormalize %turned
    %reduced: f32[cols, rows] = all_reduce %basis
    loop 3 {
        carry %here: f32[rows, cols] = %new
        sweep [rows, cols] {
            x: f32 = load %here
            b: bool = is_finite x
            => %going: bool = fold or(b)
        }
        while %going
        sweep [rows, cols] {
            x: f32 = load %here
            => %next: f32[rows, cols] = write(x)
        }
        yield %next => %final: f32[rows, cols]
    }
    out field index = %index
    out count index = %count
    out field value = %value
    out field code = %codes
    out state q = %final
    out residual r = %a
    out finite finite = %all
    out cut cut = %cut
}

function decode {
    in field index = %index: u32[k; %count]
    in count index = %count: u32
    sweep [rows, cols] {
        z: f32 = const value=0.0
        => %out: f32[rows, cols] = write(z)
    }
    out out out = %out
}

function initial_q {
    sweep [rows, cols] {
        z: f32 = normal stream=128 shared=true
        => %start: f32[rows, cols] = write(z)
    }
    out state q = %start
}
"""

ILLEGAL = {
    # bodies
    "twice": ("c: f32 = const value=1.5", "x: f32 = const value=1.5", "`x`: is defined twice in one body"),
    "opcode": ("exp x", "expo x", "`expo` is no opcode"),
    "arity": ("mul x c", "mul x", "`mul` needs 2 arguments, got 1"),
    "draw arity": ("uniform stream=0", "uniform h h stream=0", "`uniform` needs 1 arguments, got 2"),
    "order": ("m: f32 = mul x c", "m: f32 = mul x f", "its argument `f` is used before it is defined"),
    "source": ("exp x", "exp x %g", "a load has a source"),
    "no source": ("load %own", "load", "a load has a source"),
    "arithmetic": ("m: f32 = mul x c", "m: f32 = mul x h", "`mul` needs `h` to be f32, got u32"),
    "arithmetic result": ("sh: u32 = shl h at", "sh: bool = add lo lo", "`add` gives f32 or .*, got bool"),
    "fma": ("f: f32 = fma x c m", "f: i32 = fma i i i", "`fma` gives f32, got i32"),
    "compare": ("lo: bool = lt x c", "lo: bool = lt x h", "`lt` needs `h` to be f32, got u32"),
    "compare result": ("e: f32 = exp x", "e: f32 = lt x c", "`lt` gives bool, got f32"),
    "select": ("select lo x c", "select x x c", "`select` needs `x` to be bool, got f32"),
    "narrow select": ("t: u2 = cast x", "t: u2 = select lo h h", "`select` of u2 needs both choices to be u2"),
    "logic": ("and lo nan", "and lo x", "`and` needs `x` to be bool, got f32"),
    "bits": ("sh: u32 = shl h at", "sh: u32 = shl h i", "`shl` needs `i` to be u32, got i32"),
    "reinterpret": ("sh: u32 = shl h at", "sh: u32 = bits h", "`bits` needs `h` to be f32, got u32"),
    "function": ("e: f32 = exp x", "e: f32 = exp h", "`exp` needs `h` to be f32, got u32"),
    "predicate": ("nan: bool = is_nan x", "nan: bool = is_nan h", "`is_nan` needs `h` to be f32, got u32"),
    "attribute": ("const value=1.5", "const", "`const` needs the attribute `value`"),
    "constant": ("const value=7", "const value=-7", "-7 is no constant of type u32"),
    "bool constant": ("y: bool = const value=true", "y: bool = const value=1", "1 is no constant of type bool"),
    "float constant": ("const value=1.5", "const value=true", "True is no constant of type f32"),
    "parameter": ('param name="gain"', 'param name="loss"', "parameter `loss` is unknown, not f32"),
    "parameter type": ('p: f32 = param name="gain"', 'p: i32 = param name="gain"', "parameter `gain` is f32, not i32"),
    "size": ("size value=[k]", "size value=[m]", "size `m` uses the unknown name `m`"),
    "no size": ("size value=[k]", "size value=3", "`value` needs to be a size, got 3"),
    "axis": ('axis="column"', 'axis="depth"', "axis needs to be one of flat, row, column, got `depth`"),
    "position": ('at: u32 = position axis="column"', 'at: i32 = position axis="column"', "a position is u32, got i32"),
    "stream": ("uniform stream=0", "uniform stream=256", "a stream is 0..255, got 256"),
    "no stream": ("uniform stream=0", "uniform", "needs the attribute `stream`"),
    "shared": ("shared=true extent", "shared=1 extent", "`shared` needs to be true or false"),
    "draw bits": ("bits=16", "bits=8", "bits needs to be 16 or 32, got 8"),
    "draw type": ("u: f32 = uniform", "u: u32 = uniform", "`uniform` gives f32, got u32"),
    "draw position": ("choose stream=0", "choose x stream=0", "the position of a draw needs to be u32"),
    "extent": (" extent=[n]", "", "`choose` needs the attribute `extent`"),
    "collective in loop": (
        "=> %going: bool = fold or(b)\n        }",
        "=> %going: bool = fold or(b)\n        }\n        %mean: f32[rows, cols] = all_reduce %here",
        "no collective inside a loop",
    ),
    "draw in loop": (
        "b: bool = is_finite x", "b: bool = is_finite x\nd: f32 = normal stream=1 shared=true", "no draw inside a",
    ),
    # loads
    "load type": ("v: f32 = load %sum", "v: u32 = load %sum", "loads f32 as u32"),
    "load space": (
        "d: f32 = load %own", "d: f32 = load %dense", "`dense` is f32\\[rows, n\\], which does not fit the space",
    ),
    "index type": ("load_at at %g", "load_at v %g", "the index needs to be u32 or i32, got f32"),
    "scalar gather": ("load_at at %g", "load_at at %own", "`own` is a scalar and has no elements"),
    "gather rows": (
        "x: f32 = load %kept", 'i: u32 = position axis="flat"\nx: f32 = load_at i %g', "the space has other rows",
    ),
    # sinks
    "missing": ("write(w)", "write(ww)", "its sink consumes `ww`, which the body does not define"),
    "write type": ("%a: f32[rows, cols] = write(w)", "%a: f32[rows, cols] = write(h)", "needs u32"),
    "write shape": (
        "%new: f32[rows, cols] = write(b)", "%new: f32[cols, rows] = write(b)", "needs f32\\[rows, cols\\], got",
    ),
    "write count": (
        "%value: f32[k; %count] = write(x)", "%value: f32[k] = write(x)", "needs f32\\[k; count\\], got f32\\[k\\]",
    ),
    "fold shape": ("%sum: f32[rows] = fold add(x) per row", "%sum: f32[rows] = fold add(x)", "needs f32, got"),
    "fold type": ("fold add(x) per row", "fold add(lo) per row", "`add` does not combine bool"),
    "fold results": ("%mean: f64, %m2: f64 = fold", "%mean: f64 = fold", "`moments` has 2 results, got 1"),
    "moments": ("%mean: f64, %m2: f64", "%mean: f32, %m2: f64", "needs f64, got f32"),
    "logic fold": ("fold and(lo)", "fold and(x)", "`and` does not combine f32"),
    "argmax": ("%best: u32 = fold", "%best: f32 = fold", "needs u32, got f32"),
    "custom result": ("o: f32 = max l r", "o: bool = lt l r", "its combine needs to give f32, got bool"),
    "custom position": (
        "o: f32 = max l r", 'q: u32 = position axis="flat"\no: f32 = max l r', "a combine has no position",
    ),
    "custom load": ("o: f32 = max l r", "q: f32 = load %g\no: f32 = max l r", "a combine loads scalars only"),
    "custom draw": (
        "o: f32 = max l r", "q: f32 = normal stream=1 shared=true\no: f32 = max l r", "a combine draws nothing",
    ),
    "custom names": ("combining l, r into o", "combining l, l into o", "needs two different parameters"),
    "scan": ("scan add(x) per row", "scan argmax(x) per row", "`argmax` does not scan"),
    "per row": (
        "keep(y, k) carrying x", "keep(y, k) carrying x\n=> %no: f32 = fold add(x) per row", "needs a space of two",
    ),
    "filter space": (
        "%kth: f32[rows] = kth(x, k) per row", "%i: u32[k; %c], %c: u32, %d: u32 = keep(lo, k)", "a space of one dim",
    ),
    "filter predicate": ("keep(y, k)", "keep(x, k)", "the predicate `x` needs to be bool, got f32"),
    "filter bound": ("%index: u32[k; %count]", "%index: u32[n; %count]", r"needs u32\[k; count\], got u32\[n; count\]"),
    "filter count": ("%count: u32, %cut", "%count: i32, %cut", "needs u32, got i32"),
    "top shape": ("%tops: f32[rows, k]", "%tops: f32[rows, n]", r"needs f32\[rows, k\], got f32\[rows, n\]"),
    "top key": ("top(x, k)", "top(t, k)", "a key is a number that computes as itself, got u2"),
    "kth shape": ("kth(x, k) per row", "kth(x, k)", "needs f32, got"),
    "sink size": ("kth(x, k) per row", "kth(x, kk) per row", "size `kk` uses the unknown name `kk`"),
    "put index": ("put(at, x)\n", "put(x, x)\n", "the index `x` needs to be u32 or i32, got f32"),
    "put rank": ("%dense: f32[rows, n]", "%dense: f32[n]", "needs 2 dimensions, got 1"),
    "put base": ("onto %q", "onto %a", "`a`: is used before it is defined"),
    "put rows": ("%dense: f32[rows, n] = put", "%dense: f32[cols, n] = put", r"needs f32\[rows, n\], got"),
    "put base shape": (
        "%dense: f32[rows, n] = put(at, x)", "%dense: f32[rows, n] = put(at, x) onto %q", "needs f32\\[rows, cols",
    ),
    # operations
    "value twice": ("%sorted: f32", "%a: f32", "`a`: is defined twice"),
    "unbounded rank": (
        "%index: u32[k; %count], %count: u32, %cut: u32,", "%index: u32[rows, k], %count: u32, %cut: u32,", "needs",
    ),
    "bounded space": ("sweep [k; %count] {", "sweep [k; %index] {", "its count `index` needs to be a u32 scalar"),
    "sort": ("sort %a", "sort %all", "`sort` needs an array of numbers"),
    "transpose": (
        "%turned: f32[cols, rows] = transpose", "%turned: f32[rows, cols] = transpose", "needs f32\\[cols, rows\\]",
    ),
    "matrix": ("orthonormalize %turned", "orthonormalize %sum", "`orthonormalize` needs a matrix"),
    "matrix type": ("all_reduce %basis", "all_reduce %all", "`allreduce` needs f32, got bool"),
    "matmul inner": ("matmul %a %g transpose_right", "matmul %a %g", "`matmul` of cols columns with rows rows"),
    "matmul rank": ("matmul %a %g transpose_right", "matmul %a %sum transpose_right", "`sum` is none"),
    "matmul shape": ("%product: f32[rows, rows]", "%product: f32[cols, cols]", r"needs f32\[rows, rows\]"),
    "loop type": ("carry %here: f32[rows, cols]", "carry %here: f32[cols, rows]", r"needs f32\[rows, cols\]"),
    "loop result": ("=> %final: f32[rows, cols]", "=> %final: f32[rows]", r"needs f32\[rows, cols\]"),
    "loop condition": ("while %going", "while %best", "needs bool, got u32"),
    "loop yield": ("yield %next", "yield %sum", r"needs f32\[rows, cols\], got f32\[rows\]"),
    "loop leak": ("out state q = %final", "out state q = %next", "`next`: is used before it is defined"),
    # ports
    "input role": ("in residual r", "in cut r", "`cut` is no input"),
    "output role": ("out cut cut", "out gradient cut", "`gradient` is no output"),
    "two ports": ("in residual r", "in state q", "two state ports of this name"),
    "state goes out": ("in state q = %q", "in field index = %q", "state goes out, but not in"),
    "state type": ("out state q = %final", "out state q = %sum", r"needs f32\[rows, cols\], got f32\[rows\]"),
    "unknown state": ("state q: f32[rows, cols]", "state qq: f32[rows, cols]", "`q`: is no state of the program"),
    "initial": ("= initial_q", "= initial_p", "state `q` starts from `initial_p`, which does not exist"),
    "residual type": ("out residual r = %a", "out residual r = %sum", r"needs f32\[rows, cols\], got f32\[rows\]"),
    "finite": ("out finite finite = %all", "out finite finite = %best", "needs bool, got u32"),
    "cut": ("out cut cut = %cut", "out cut cut = %all", "needs u32, got bool"),
    "field missing": ("    out field code = %codes\n", "", "`code`: this field of the payload is not returned"),
    "count missing": ("    out count index = %count\n", "", "the count of `index` is missing"),
    "unknown field": ("out field code", "out field codes", "`codes`: is no field of the payload"),
    "field type": ("out field code = %codes", "out field code = %a", r"needs u2\[rows, cols\], got f32"),
    "field count": ("out field value = %value", "out field value = %tops", r"needs f32\[k; count\]"),
    "two functions": ("function initial_q", "function decode", "two functions have this name"),
}  # fmt: skip
