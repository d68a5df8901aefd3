"""print_ir and parse_ir: a round trip over random and hand-made programs, and messages that name the line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from compll.codegen.text import parse_ir, print_ir
from compll.diagnostics import CompllError
from tests.strategies import cases

EVERYTHING = """\
// a comment line is skipped
program everything
gradient blocks [ceil((numel / 512)), 512] named blocks, _
parameter gain: f32
size k = max(1, floor((0.01 * numel)))
size wide = select((k > 3), -2, (k << 2))
state q: f32[blocks, 512] = initial_q
state z: f32[blocks, 512]
field code: u2[k]
field index: u32[k] ascending(numel) counted by index
field value: bf16[k] counted by index
trait linear
trait shared_seed
feedback

function encode {
    in gradient g = %g: f32[blocks, 512]
    in state q = %q: f32[blocks, 512]
    sweep [blocks, 512] {  // let a = g + 1.0; // twice
        x: f32 = load %g
        c: f32 = const value=1e-05
        inf_2: f32 = const value=-inf
        big: i32 = const value=-3
        yes: bool = const value=true
        u: f32 = uniform stream=3 shared=false bits=16
        j: u32 = choose stream=0 shared=true extent=[(k + 1)]
        p: f32 = param name="gain"
        s: u32 = size value=[wide]
        at: u32 = position axis="row"
        y: f32 = select yes x c
        b: bool = lt x c
        => %a: f32[blocks, 512] = write(y)
        => %m: f64[blocks], %m2: f64[blocks] = fold moments(x) per row
        => %t: f32 = fold custom(x) identity=0.0 combining l, r into o {
            o: f32 = max l r
        }
        => %run: f32[blocks, 512] = scan custom(x) exclusive per row identity=0.0 combining l, r into o {
            o: f32 = add l r
        }
        => %top: u32[blocks, k], %v: f32[blocks, k], %w: f32[blocks, k] = top(x, k) per row carrying x, y
        => %low: f32[blocks] = kth(x, (k - 1)) per row
        => %dense: f32[blocks, 512] = put(at, x) onto %q
        => %plain: f32[blocks, 512] = put(at, x)
    }
    %sorted: f32[blocks, 512] = sort %a descending  // sort(a)
    %other: f32[blocks, 512] = sort %a
    %square: f32[blocks, blocks] = matmul %a %dense transpose_right  // matmul
    %again: f32[512, 512] = matmul %a %dense transpose_left
    %turned: f32[512, blocks] = transpose %a
    %basis: f32[512, blocks] = orthonormalize %turned
    %mean: f32[512, blocks] = all_reduce %basis  // ends a round
    sweep [numel] {
        i: u32 = position axis="flat"
        yes: bool = const value=false
        => %index: u32[k; %count], %count: u32, %cut: u32, %kept: u32[k; %count] = keep(yes, k) carrying i
    }
    sweep [k; %count] {
        i: u32 = load %index
        => %copy: u32[k; %count] = write(i)
    }
    loop 10 {  // repeat
        carry %here: f32 = %t
        sweep [] {
            h: f32 = load %here
            b: bool = is_nan h
            => %going: bool = write(b)
        }
        while %going
        sweep [] {
            h: f32 = load %here
            => %next: f32 = write(h)
        }
        yield %next => %last: f32
    }
    out field code = %copy
    out count index = %count
    out cut cut = %cut
}
"""


def test_every_construct_is_read_and_written_alike():
    program = parse_ir(EVERYTHING)
    text = print_ir(program)
    assert text.split("\n") == EVERYTHING.split("\n")[1:]
    assert parse_ir(text) == program


@settings(max_examples=150, deadline=None)
@given(cases())
def test_round_trip(case):
    assert parse_ir(print_ir(case.program)) == case.program


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("field code: u2[k]", "field code: u99[k]", "line 9: needs an element type, got `u99`"),
        ("load %g\n", "load %gg\n", "line 20: needs a value that is defined above, got `%gg`"),
        ("sort %a descending", "sort %a desc", "line 45: needs the end of the line, got `desc`"),
        ("write(y)", "writ(y)", "line 32: needs a sink, got `writ`"),
        ("size k = max(1", "size k = max(#", "line 5: `#` is no part of the text form"),
        ("out cut cut = %cut", "out nothing cut = %cut", "needs one of gradient, residual"),
        ("carrying x, y", "carrying x", "needs 2 carried scalars"),
        ("(k - 1)", "(k ! 1)", "`!` is no part of the text form"),
    ],
)
def test_messages_name_line_need_and_found(old, new, message):
    assert old in EVERYTHING
    with pytest.raises(CompllError) as error:
        parse_ir(EVERYTHING.replace(old, new, 1))
    assert message in str(error.value)


@pytest.mark.parametrize("end", range(EVERYTHING.index("function") + 3, len(EVERYTHING) - 2, 37))
def test_a_torn_text_is_an_error_not_a_crash(end):
    with pytest.raises(CompllError, match="line"):
        parse_ir(EVERYTHING[:end])
