"""The contract of a compressor, checked by machine: laws that every program, or every program that declares a trait,
must keep on every backend; and measurements that tell its author what it is.

`inputs` has shapes and gradients, `laws` one short function for each law, `profile` the measurements, `run` the loop.
"""

from __future__ import annotations

from compll.battery.law import Law, LawResult, Subject, Violation
from compll.battery.laws import LAWS
from compll.battery.run import Report, run_battery

__all__ = ["LAWS", "Law", "LawResult", "Report", "Subject", "Violation", "run_battery"]
