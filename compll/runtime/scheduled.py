"""A compressor whose parameters may change from step to step."""

from __future__ import annotations

import torch

from compll.diagnostics import CompllError
from compll.runtime.compressor import Compressor
from compll.runtime.options import ParameterSchedule


class ScheduledCompressor:
    """`at(step)` is the compressor of a step; all of them keep states of equal shapes."""

    def __init__(self, base: Compressor, schedule: ParameterSchedule) -> None:
        self._schedule = schedule
        self._at = {step: base.with_params(**schedule.at(step)) for step in schedule.changes()}

    def at(self, step: int) -> Compressor:
        return self._at[max(s for s in self._at if s <= step)]

    @property
    def first(self) -> Compressor:
        return self._at[0]

    def prepare(self, shape: torch.Size, dtype: torch.dtype, name: str) -> None:
        """Work out every size now. Raises CompllError when a schedule changes what the states of `name` are."""
        layouts = {step: c.sized(shape, dtype).states for step, c in self._at.items()}
        for step, compressor in self._at.items():
            if layouts[step] != layouts[0] or compressor.feedback != self.first.feedback:
                raise CompllError(
                    f"the parameters from step {step} on change the states of `{name}`; a schedule may only "
                    f"change parameters that the states of `{compressor.name}` do not depend on"
                )
