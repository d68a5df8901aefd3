"""Ranks that die, stand still or raise in real jobs: the others end in time, with a clear error, and the job goes on
from its checkpoint to the same parameters, bit for bit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

JOB = str(Path(__file__).with_name("job.py"))
WORLD = 3
TIMEOUT_S = 6.0  # of the process groups
START_S = 240.0  # for all that a job needs on a busy machine
PATIENCE_S = 60.0  # of the process groups of jobs that are to end well
END_S = 15.0  # for ending, beyond the timeout

#: torch 2.13 gives restarted workers the store of the first attempt, with the addresses of dead processes in it.
FRESH_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}

pytestmark = pytest.mark.dist


@dataclass(frozen=True)
class Ended:
    """`after` in seconds after the first one of the job."""

    code: int
    text: str
    after: float


@contextmanager
def started(folder: Path, world: int, *arguments: object) -> Iterator[list[subprocess.Popen[str]]]:
    """A job's processes, ended when the test does."""
    meet = folder / f"meet{len(list(folder.glob('meet*')))}"
    command = [sys.executable, JOB, str(folder), *map(str, arguments)]
    processes = []
    try:
        for rank in range(world):
            place = {"MEET": f"file://{meet}", "RANK": str(rank), "WORLD_SIZE": str(world)}
            processes.append(_start(command, place))
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _start(command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, env=os.environ | environment, text=True, **pipes)


def run(folder: Path, *arguments: object, world: int = WORLD) -> list[str]:
    """What the ranks of a job that ends well print."""
    with started(folder, world, *arguments) as processes:
        texts = [process.communicate(timeout=START_S)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * world, texts
    return texts


def harmed(folder: Path, misfortune: str, rank: int, step: int, world: int = WORLD) -> list[Ended]:
    """How the ranks other than `rank` end."""
    with started(folder, world, TIMEOUT_S, misfortune, rank, step) as processes:
        _wait_for(folder / "struck")
        begin = time.monotonic()
        ends = []
        for process in processes[:rank] + processes[rank + 1 :]:
            text = process.communicate(timeout=TIMEOUT_S + END_S)[0]
            ends.append(Ended(process.returncode, text, time.monotonic() - begin))
        if misfortune == "raise":
            assert "ValueError: the dog ate the batch" in processes[rank].communicate(timeout=END_S)[0]
    return ends


def _wait_for(path: Path) -> None:
    give_up = time.monotonic() + START_S
    while not path.exists():
        assert time.monotonic() < give_up, f"no {path.name} within {START_S} s"
        time.sleep(0.05)


def results(folder: Path) -> list[str]:
    return [(folder / f"result.{rank}").read_text() for rank in range(WORLD)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job to which nothing happened; it compiles what the others need, too."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run(folder, PATIENCE_S)
    assert len(set(results(folder))) == 1
    return folder


#: Whichever collective fails first is named: a bucket's, or that of what is not compressed.
CLEAR = r"RuntimeError: compressor `topk` failed on rank \d in step 3 while .* `\d\.(weight|bias)`"


def check_ends(ends: Sequence[Ended]) -> None:
    for ended in ends:
        assert ended.code == 1 and ended.after < TIMEOUT_S + END_S
        assert re.search(CLEAR, ended.text) and ended.text.count("Traceback") == 1, ended.text


@pytest.mark.parametrize("world", [2, WORLD])  # two exchange in another way than more
@pytest.mark.parametrize("misfortune", ["stop", "raise"])
def test_the_others_end_in_time_with_a_clear_error(
    misfortune: str, world: int, undisturbed: Path, tmp_path: Path
) -> None:
    check_ends(harmed(tmp_path, misfortune, rank=1, step=3, world=world))


def test_a_job_that_lost_a_rank_resumes(undisturbed: Path, tmp_path: Path) -> None:
    check_ends(harmed(tmp_path, "kill", rank=1, step=3))
    texts = run(tmp_path, PATIENCE_S)
    assert all("resumed at step 3" in text for text in texts)
    assert results(tmp_path) == results(undisturbed)


def test_torchrun_restarts_a_job_that_lost_a_rank(undisturbed: Path, tmp_path: Path) -> None:
    options = ["--standalone", f"--nproc-per-node={WORLD}", "--max-restarts=1"]
    job = [JOB, str(tmp_path), str(PATIENCE_S), "kill", "1", "3"]
    process = _start([sys.executable, "-m", "torch.distributed.run", *options, *job], FRESH_STORE)
    try:
        text, _ = process.communicate(timeout=START_S)
    finally:
        process.terminate()  # so that it ends its workers
        process.wait(timeout=END_S)
    assert process.returncode == 0, text
    assert text.count("resumed at step 3") == WORLD, text
    assert results(tmp_path) == results(undisturbed)


def test_another_number_of_ranks_gets_the_choices(undisturbed: Path) -> None:
    with started(undisturbed, 1, PATIENCE_S) as (process,):
        text, _ = process.communicate(timeout=START_S)
    assert process.returncode == 1
    assert f"the saved state is of {WORLD} ranks, this run has 1: start as many ranks as before, or do not load" in text
