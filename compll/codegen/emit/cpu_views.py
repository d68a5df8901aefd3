"""What the templates of CPU kernels place: a view for each, every entry of it finished text."""

from __future__ import annotations

from dataclasses import dataclass

from compll.codegen.emit.cpu_sinks import Places


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepView:
    """What `cpu/sweep.cpp.j2` places."""

    name: str
    struct: str
    comment: str
    combines: tuple[str, ...]
    declarations: tuple[str, ...]
    rows: str
    length: str
    rowwise: bool
    inner: str  # the strips
    prepare: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerView:
    """What `cpu/strips.cpp.j2` places: the work on the space, or on one row of it."""

    team: str
    captures: str
    rowwise: bool
    row_lines: tuple[str, ...]  # once a row, of a rowwise sweep
    strip: str  # the evaluation of one strip
    places: Places


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkView:
    """What `cpu/walk.cpp.j2` places: an elementwise sweep of any range of its positions."""

    name: str
    struct: str
    comment: str
    declarations: tuple[str, ...]
    length: str
    strip: str
    places: Places


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """What `cpu/step.cpp.j2` places: statements in order."""

    name: str
    struct: str
    comment: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CombineView:
    """What `cpu/combine.cpp.j2` places: a program's own way to combine."""

    name: str
    struct: str
    ctype: str
    identity: str
    left: str
    right: str
    lines: tuple[str, ...]
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctorView:
    """What `cpu/functor.cpp.j2` places: a slice of the body as a function object, the argument of `call`."""

    call: str
    captures: str
    parameters: str
    strip: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StripView:
    """What `cpu/evaluate.cpp.j2` places: the body over one strip, in runs inside rows where `runs` says so."""

    rowwise: bool
    runs: bool
    columns: str
    staging: tuple[str, ...]
    row_lines: tuple[str, ...]
    element: tuple[str, ...]
    run: tuple[str, ...]
