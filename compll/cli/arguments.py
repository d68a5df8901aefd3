"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

Program = Annotated[str, typer.Argument(metavar="FILE", help="A program: a path, or the name of a shipped one.")]
Programs = Annotated[list[str], typer.Argument(metavar="FILE...", help="Programs: paths, or names of shipped ones.")]
Params = Annotated[
    Optional[list[str]],
    typer.Option("--param", metavar="NAME=VALUE", help="A parameter of the program; repeat for several."),
]
Shape = Annotated[
    str, typer.Option("--shape", metavar="ROWSxCOLS|N", help="The gradient for which the program is shown.")
]
Json = Annotated[Optional[Path], typer.Option("--json", metavar="FILE", help="Write the figures as JSON.")]

USUAL_SHAPE = "4096x4096"
