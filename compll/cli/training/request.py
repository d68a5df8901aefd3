"""One wanted run, as typed on the command line: `NAME[:key=value,...]`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compll.cli.values import Value, parse_params, show_value
from compll.diagnostics import CompllError


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A baseline, the name of a shipped program or a path, and its parameters and options."""

    name: str
    params: Mapping[str, Value]

    @property
    def label(self) -> str:
        """`name key=value ...`, for tables and plots."""
        return " ".join([self.name, *(f"{key}={show_value(value)}" for key, value in self.params.items())])

    @property
    def typed(self) -> str:
        """As `parse_request` reads it."""
        params = ",".join(f"{key}={show_value(value)}" for key, value in self.params.items())
        return f"{self.name}:{params}" if params else self.name


def parse_request(text: str) -> Request:
    """Read `NAME[:key=value,...]`. Raises CompllError on anything else."""
    name, _, rest = text.partition(":")
    if not name:
        raise CompllError(f"a compressor needs a name before `:`, got `{text}`")
    return Request(name=name, params=parse_params(rest.split(",") if rest else (), f"`{name}`"))
