"""The jinja environment: the only user of jinja2. It places finished text; decisions are made by the emitters."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).parent.parent / "templates"

_environment = Environment(
    loader=FileSystemLoader(TEMPLATES),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,
)


def render(template: str, view: object) -> str:
    """The text of a template ("cpu/sweep.cpp.j2") for a view, a frozen dataclass that it sees as `view`."""
    return _environment.get_template(template).render(view=view)
