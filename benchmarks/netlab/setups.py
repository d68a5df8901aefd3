"""One network to measure on, as typed: MACHINESxRANKS@RATE."""

from __future__ import annotations

import re
from dataclasses import dataclass

from benchmarks.netlab.lab import bits_per_second


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """`ranks` processes on each machine, which share its link; inside a machine they use the loopback."""

    machines: int
    ranks: int
    rate: str

    @property
    def workers(self) -> int:
        return self.machines * self.ranks

    @property
    def node_size(self) -> int:
        """For hierarchical synchronisation: a machine, or pairs of machines where each has one rank."""
        return self.ranks if self.ranks > 1 else 2

    @property
    def label(self) -> str:
        return f"{self.machines}x{self.ranks}@{self.rate}"

    @property
    def title(self) -> str:
        ranks = "one rank" if self.ranks == 1 else f"{self.ranks} ranks"
        speed = "not shaped" if self.rate == "none" else f"{self.rate}/s"
        return f"{self.machines} machines of {ranks}, links {speed}"


def parse_setup(text: str) -> Setup:
    """Read `2x1@1gbit`. Raises ValueError for anything else."""
    match = re.fullmatch(r"(\d+)x(\d+)@(\w+)", text)
    if match is None or not 2 <= int(match[1]) <= 200 or not int(match[2]):
        raise ValueError(f"a network needs the form MACHINESxRANKS@RATE with 2 machines or more, got `{text}`")
    bits_per_second(match[3])
    return Setup(machines=int(match[1]), ranks=int(match[2]), rate=match[3])
