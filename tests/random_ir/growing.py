"""What the parts of a random program share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from compll.codegen import ir
from compll.dtypes import F32, I32, I64, U32, DType
from compll.sizes import Size

INTEGERS = (I32, U32, I64)
NUMBERS = (F32, F32, *INTEGERS)


@dataclass
class Growing:
    """A program that grows by what `draw` says: its values so far, and fresh names."""

    draw: st.DrawFn
    values: list[ir.Value] = field(default_factory=list)
    streams: int = 0
    number: int = 0

    def value(self, dtype: DType, shape: tuple[Size, ...] = (), count: str | None = None) -> ir.Value:
        self.number += 1
        return ir.Value(name=f"v{self.number}", dtype=dtype, shape=shape, count=count)

    def choose(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))
