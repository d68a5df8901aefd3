"""From a name or a path to a compressor, and what is said when there is none."""

from hashlib import sha256
from pathlib import Path

import pytest

import compll
from compll import CompllError

IDENTITY = """compressor identity {
    payload { value: f32[n]; }
    encode(g: f32[n]) { return { value: g }; }
    decode(p) -> f32[n] { return p.value; }
}
"""


def test_built_in_name_and_parameters() -> None:
    c = compll.load("topk", backend="reference", ratio=0.25)
    assert (c.name, c.params, c.feedback, c.backend) == ("topk", {"ratio": 0.25}, True, "reference")
    assert c.payload_bytes((100,)) == c.payload_bytes([10, 10])
    assert compll.load("topk").source_hash == c.source_hash != compll.load("dgc").source_hash


def test_path(tmp_path: Path) -> None:
    path = tmp_path / "identity.cll"
    path.write_text(IDENTITY)
    assert compll.load(path, backend="reference").name == "identity"
    assert compll.load(str(path), backend="reference").payload_bytes((7,)) == 28


def test_conditions_depend_on_parameters() -> None:
    assert compll.load("randomk").traits == {"linear", "shared_seed", "unbiased"}
    biased = compll.load("randomk", scale=False)
    assert (biased.traits, biased.feedback) == ({"linear", "shared_seed"}, True)


def test_unknown_name_has_a_guess_and_a_list() -> None:
    with pytest.raises(CompllError, match=r"no built-in compressor `topc`; did you mean `topk`\? \(built in: .*dgc"):
        compll.load("topc")


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary.cll"
    binary.write_bytes(b"\xff\xfe\x00compressor")
    for path, text in [
        (binary, "needs to be UTF-8 text"),
        (tmp_path / "none.cll", "no such file"),
        (tmp_path, "is a directory"),
    ]:
        with pytest.raises(CompllError, match=text) as caught:
            compll.load(path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("before", [IDENTITY, "\ufeff" + IDENTITY, IDENTITY.replace("\n", "\r\n")])
def test_marks_and_line_ends_of_editors_mean_nothing(before: str, tmp_path: Path) -> None:
    path = tmp_path / "identity.cll"
    path.write_bytes(before.encode())
    assert compll.load(path, backend="reference").source_hash == sha256(IDENTITY.encode()).hexdigest()


def test_files_without_end_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "long.cll"
    path.write_text(f"// {'x' * (1 << 20)}\n{IDENTITY}")
    for endless in (path, "/dev/zero"):
        with pytest.raises(CompllError, match="needs to have at most 1048576 characters"):
            compll.load(endless)


def test_faulty_program_shows_where(tmp_path: Path) -> None:
    path = tmp_path / "faulty.cll"
    path.write_text(IDENTITY.replace("value: g", "value: h"))
    with pytest.raises(CompllError, match=r"faulty.cll:3:\d+: error\[E\d+\]"):
        compll.load(path)


def test_parameters_are_checked() -> None:
    with pytest.raises(CompllError, match="ratio"):
        compll.load("topk", ratio=2.0)
    with pytest.raises(CompllError, match="ratio"):
        compll.load("topk", ration=0.5)


def test_unknown_backend_lists_what_is_allowed() -> None:
    with pytest.raises(CompllError, match="backend needs one of auto, reference, cpu, emulator, cuda, got `tpu`"):
        compll.load("topk", backend="tpu")


def test_with_params_and_with_feedback_make_new_compressors() -> None:
    c = compll.load("topk", ratio=0.5)
    assert c.with_params(ratio=0.1).params == {"ratio": 0.1} and c.params == {"ratio": 0.5}
    assert not c.with_feedback(False).feedback and c.feedback
    with pytest.raises(CompllError, match="ratio"):
        c.with_params(ratio=-1)
