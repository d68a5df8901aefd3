"""Building and loading: the cache under concurrent use, refusals that can be read, no compiler, batches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import compll
from compll.diagnostics import CompllError, InternalError
from compll.runtime import cache, devices
from compll.runtime.devices import cpu

needs_compiler = pytest.mark.skipif(cpu.available() is not None, reason="needs a C++ compiler")
FLAGS = ("-shared", "-fPIC")


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COMPLL_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)


def test_content_hash_sees_where_parts_end() -> None:
    assert cache.content_hash(["ab", "c"]) != cache.content_hash(["a", "bc"])
    assert cache.content_hash(["a"]) == cache.content_hash([b"a"])


def test_cached_makes_once_and_leaves_nothing_behind(empty_cache: Path) -> None:
    made: list[Path] = []

    def make(path: Path) -> None:
        made.append(path)
        path.write_text("x")

    assert cache.cached("a.txt", make).read_text() == "x"
    assert cache.cached("a.txt", make) == empty_cache / "a.txt"
    assert len(made) == 1
    assert [p.name for p in empty_cache.iterdir()] == ["a.txt"]


def test_a_maker_that_fails_leaves_nothing_behind(empty_cache: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cache.cached("a.txt", fail)
    assert list(empty_cache.iterdir()) == []


@needs_compiler
def test_many_processes_on_an_empty_cache(empty_cache: Path) -> None:
    program = (
        "from compll.runtime.devices.cpu import build_library\n"
        "import ctypes\n"
        f"path = build_library('answer', 'extern \"C\" int answer() {{ return 42; }}', {FLAGS!r})\n"
        "assert ctypes.CDLL(str(path)).answer() == 42\n"
        "print(path.name)"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    names = {process.communicate(timeout=300)[0] for process in processes}
    assert all(process.returncode == 0 for process in processes)
    assert len(names) == 1
    assert sorted(p.suffix for p in empty_cache.iterdir()) == [".cpp", ".so"]


@needs_compiler
def test_other_flags_are_another_library(empty_cache: Path) -> None:
    source = 'extern "C" int answer() { return 42; }'
    assert cpu.build_library("a", source, FLAGS) != cpu.build_library("a", source, (*FLAGS, "-O1"))


@needs_compiler
def test_a_refusal_shows_error_line_and_source(empty_cache: Path) -> None:
    with pytest.raises(InternalError) as caught:
        cpu.build_library("bad", "int fine = 1;\nint wrong = nothing_here;\n", FLAGS)
    message = str(caught.value)
    assert "nothing_here" in message.splitlines()[0] and "error:" in message.splitlines()[0]
    assert message.splitlines()[1].strip() == "int wrong = nothing_here;"
    assert Path(message.rsplit("the whole source: ", 1)[1]).read_text().startswith("int fine")
    assert not list(empty_cache.glob("*.so"))


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("kill -KILL $$", "SIGKILL"),
        ("echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1", "Killed"),
    ],
)
def test_a_compiler_that_is_killed_has_refused_nothing(
    monkeypatch: pytest.MonkeyPatch, empty_cache: Path, tmp_path: Path, script: str, name: str
) -> None:
    compiler = tmp_path / "cxx"
    compiler.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exit\n{script}\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(CompllError, match=rf"ended by a signal \({name}\)") as caught:
        cpu.build_library("a", "int a;", FLAGS)
    assert not isinstance(caught.value, InternalError)
    assert not list(empty_cache.glob("*.so"))


def test_without_a_compiler_the_reason_is_told(no_compiler: None) -> None:
    assert cpu.available() is not None
    assert "cpu" not in devices.available_devices()
    with pytest.raises(CompllError, match="no C\\+\\+ compiler"):
        cpu.build_library("a", "int a;")


def test_an_unknown_backend_lists_what_there_is() -> None:
    with pytest.raises(CompllError, match="auto, reference, cpu.*got `tpu`"):
        devices.open_device("tpu")


@needs_compiler
def test_the_compiler_can_be_chosen(monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert cpu.build_library("a", 'extern "C" int answer() { return 42; }', FLAGS).exists()


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_batch_equals_its_members(threads: int) -> None:
    """Small and large gradients of many shapes in one call, with temporaries of their own."""
    compressor = compll.load("topk", ratio=0.05, backend="cpu")
    shapes = [(3, 5), (64, 64), (300, 300), (1, 7), (2, 70_000), (33,), (1025,)]
    generator = torch.Generator().manual_seed(1)
    gradients = [torch.randn(shape, generator=generator) for shape in shapes]
    keys = [compll.Key(seed=1, gradient=i) for i in range(len(shapes))]
    alone = [compressor.init_state(g) for g in gradients]
    together = [compressor.init_state(g) for g in gradients]
    singles = [compressor.encode(g, s, key=k) for g, s, k in zip(gradients, alone, keys)]
    batch = compressor.encode_batch(gradients, together, keys, threads=threads)
    assert all(torch.equal(a.buffer, b.buffer) for a, b in zip(singles, batch))
    assert all(torch.equal(a.residual, b.residual) for a, b in zip(alone, together))
