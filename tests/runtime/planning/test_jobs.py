"""DDP's buckets, partitions, and what a job refuses."""

from __future__ import annotations

import pytest

from compll.diagnostics import CompllError
from compll.runtime.planning.jobs import Gradient, Job, bucket_numbers, part_shapes

MB = 1 << 20


def test_the_first_bucket_is_small() -> None:
    sizes = [MB // 2, MB // 2, 20 * MB, 10 * MB, MB]
    assert bucket_numbers(sizes, ["float32"] * 5) == [0, 0, 1, 1, 2]


def test_every_dtype_has_its_buckets() -> None:
    assert bucket_numbers([10, 10, 10], ["float32", "bfloat16", "float32"]) == [0, 1, 0]


def test_partitions_are_rows() -> None:
    assert list(part_shapes((5, 3, 2), 2)) == [(2, 3, 2), (3, 3, 2)]


def test_buckets_come_in_their_order() -> None:
    x, y = (Gradient(name=n, shape=(2,), bucket=b, ready_s=0.0, compressible=False) for n, b in (("x", 1), ("y", 0)))
    job = Job(gradients=(x, y), backward_s=0.0)
    assert [[g.name for g in bucket] for bucket in job.buckets] == [["y"], ["x"]] and job.nbytes == 16


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(CompllError, match="`w` needs a dtype of .*, got `int8`"):
        Gradient(name="w", shape=(2,), dtype="int8", bucket=0, ready_s=0.0, compressible=False)
    with pytest.raises(CompllError, match="at least one gradient"):
        Job(gradients=(), backward_s=0.0).buckets
