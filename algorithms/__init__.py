"""The shipped programs: data of the package `compll.algorithms`, found by `compll.load(name)`."""

from __future__ import annotations

#: What `compll train` compares with dense training when no compressor is named.
DEMO = (
    "dense-bf16",
    "topk:ratio=0.01",
    "adtopk:ratio=0.01",
    "dgc:ratio=0.25/50:0.06/100:0.016/150:0.004",
    "terngrad",
    "onebit",
    "randomk:ratio=0.25",
)

#: What `compll profile` and `compll simulate` measure when no compressor is named.
USUAL = ("topk:ratio=0.01",)
