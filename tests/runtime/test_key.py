"""Keys are whole numbers in their ranges; the owner word is that of docs/numerics.md."""

import pytest

from compll import CompllError, Key


@pytest.mark.parametrize("name, value", [
    ("seed", -1), ("seed", 2**32), ("step", 2**32), ("gradient", -5), ("rank", 2**20 - 1), ("rank", True),
    ("step", 1.0),
    ("hop", 4096), ("base", -1),
])  # fmt: skip
def test_out_of_range_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(CompllError, match=f"`{name}` needs a whole number in .*, got {value!r}"):
        Key(**{name: value})  # type: ignore[arg-type]


def test_extremes_are_accepted() -> None:
    Key(seed=2**32 - 1, step=2**32 - 1, gradient=2**32 - 1, rank=2**20 - 2)


def test_owner_word() -> None:
    assert Key(rank=0).owner == 1
    assert Key(rank=6, hop=3).owner == 7 + 3 * 2**20
