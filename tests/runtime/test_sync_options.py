"""Options say what they allow; parameters may be schedules."""

import pytest

from compll import CompllError, SyncOptions, UnsupportedError
from compll.runtime.options import ParameterSchedule, split_arguments


@pytest.mark.parametrize("name", ["strategy", "fusion", "feedback", "rollback", "backend"])
def test_unknown_value_lists_what_is_allowed(name: str) -> None:
    with pytest.raises(CompllError, match=f"option `{name}` needs one of auto, .*, got 'sideways'"):
        SyncOptions(**{name: "sideways"})  # type: ignore[arg-type]


def test_what_is_not_there_yet_says_so() -> None:
    with pytest.raises(UnsupportedError, match="fusion='behind' is not there yet; what works is auto, ahead, none"):
        SyncOptions(fusion="behind")


@pytest.mark.parametrize("value", [0, True, "2"])
def test_a_node_has_ranks(value: object) -> None:
    with pytest.raises(CompllError, match="`node_size` needs a whole number of at least 1"):
        SyncOptions(node_size=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-1, 1.5, True, "3"])
def test_counts_are_whole_numbers(value: object) -> None:
    with pytest.raises(CompllError, match="`start_step` needs a whole number of at least 0"):
        SyncOptions(start_step=value)  # type: ignore[arg-type]


def test_arguments_are_told_apart() -> None:
    options, params = split_arguments({"ratio": 0.1, "start_step": 3}, ("ratio",), "x")
    assert options == SyncOptions(start_step=3)
    assert params == {"ratio": 0.1}


def test_unknown_argument_has_a_guess_and_both_lists() -> None:
    with pytest.raises(CompllError, match="did you mean `ratio`.*options: strategy.*parameters: ratio"):
        split_arguments({"ration": 0.1}, ("ratio",), "x")


def test_schedule_holds_from_a_step_on() -> None:
    schedule = ParameterSchedule({"ratio": {0: 0.25, 100: 0.01}, "clip": 2.5, "late": {7: 1}})
    assert schedule.at(0) == {"ratio": 0.25, "clip": 2.5}
    assert schedule.at(99) == {"ratio": 0.25, "clip": 2.5, "late": 1}
    assert schedule.at(100) == {"ratio": 0.01, "clip": 2.5, "late": 1}
    assert schedule.changes() == (0, 7, 100)


@pytest.mark.parametrize("schedule", [{}, {-1: 0.5}, {0.5: 1.0}, {"0": 1.0}])
def test_a_schedule_needs_steps(schedule: dict[object, float]) -> None:
    with pytest.raises(CompllError, match="a schedule of `ratio` needs"):
        ParameterSchedule({"ratio": schedule})
