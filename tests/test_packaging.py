"""What setup.cfg lists is what there is, so that an installed compll has every module, template, header and program."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: Packages of data that lie elsewhere in the repository.
ELSEWHERE = {"compll.algorithms": ROOT / "algorithms", "compll.shapes": ROOT / "benchmarks" / "shapes"}
CONFIG = ConfigParser()
CONFIG.read(ROOT / "setup.cfg")


def lines(section: str, key: str) -> list[str]:
    return CONFIG[section][key].split()


def folder(package: str) -> Path:
    return ELSEWHERE.get(package, ROOT / package.replace(".", "/"))


def test_every_package_is_listed() -> None:
    found = {str(p.parent.relative_to(ROOT)).replace("/", ".") for p in (ROOT / "compll").rglob("__init__.py")}
    assert set(lines("options", "packages")) == found | ELSEWHERE.keys()


def test_every_data_file_is_listed() -> None:
    listed = {
        path
        for package in CONFIG["options.package_data"]
        for pattern in lines("options.package_data", package)
        for path in folder(package).glob(pattern)
    }
    packages = [folder(package) for package in lines("options", "packages")]
    data = {
        path
        for base in (ROOT / "compll", *ELSEWHERE.values())
        for path in base.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert {str(p.relative_to(ROOT)) for p in data - listed} == set()
    assert all(any(p.is_relative_to(base) for base in packages) for p in listed)
