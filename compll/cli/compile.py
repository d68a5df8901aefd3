"""`compll compile`: any stage of the compiler, as text."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Optional

import typer

from compll.cli.arguments import USUAL_SHAPE, Params, Program, Shape
from compll.cli.output import write_text
from compll.cli.stages import STAGES, specialise
from compll.cli.values import parse_params, parse_shape
from compll.diagnostics import CompllError


class Target(str, Enum):
    cpu = "cpu"
    cuda = "cuda"
    reference = "reference"


class Emit(str, Enum):
    ast = "ast"
    ir = "ir"
    opt = "opt"
    plan = "plan"
    source = "source"


class Dtype(str, Enum):
    f32 = "f32"
    f16 = "f16"
    bf16 = "bf16"


SOURCE_SUFFIX = {Target.cpu: "cpp", Target.cuda: "cu"}


def compile_program(
    file: Program,
    target: Annotated[Target, typer.Option(help="What the source is for.")] = Target.cpu,
    emit: Annotated[Emit, typer.Option(help="The stage to show.")] = Emit.source,
    shape: Shape = USUAL_SHAPE,
    dtype: Annotated[Dtype, typer.Option(help="The gradient's element type.")] = Dtype.f32,
    param: Params = None,
    output: Annotated[Optional[Path], typer.Option("-o", "--output", metavar="DIR", help="Write a file there.")] = None,
) -> None:
    """Print a stage of the compiler, or write it to a folder."""
    params = parse_params(param or (), "the program")
    compilation = specialise(file, params, parse_shape(shape), dtype.value).compilation
    if emit is not Emit.source:
        suffix, text = STAGES[emit.value].suffix, STAGES[emit.value].text(compilation)
    elif target is Target.reference:
        raise CompllError("target `reference` has no source: it runs the program itself, shown by `--emit ir`")
    else:
        suffix, text = SOURCE_SUFFIX[target], compilation.source(target.value)
    if output is None:
        print(text, end="" if text.endswith("\n") else "\n")
    else:
        print(write_text(output / f"{compilation.program.name}.{suffix}", text))
