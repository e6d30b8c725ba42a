"""Mutated seeds for every parser of bytes that others wrote."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench.fuzz import AIM, FLOOR, next_target
from nacre.errors import StoreError
from tests.fuzz.targets import SEEDS, TARGETS, case, run_case, seeds
from tests.scale import scaled

NAMES = sorted(TARGETS)


def faults(name: str, numbers: range, folder: Path) -> list[str]:
    found = ((number, run_case(name, number, folder)[0]) for number in numbers)
    return [f"case {number}: {fault}" for number, fault in found if fault]


@pytest.mark.parametrize("name", NAMES)
def test_seeds_raise_errors_of_nacre_only(name: str, tmp_path: Path) -> None:
    assert not faults(name, range(len(seeds(name))), tmp_path)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_mutated_seeds_raise_errors_of_nacre_only(name: str, tmp_path: Path) -> None:
    assert not faults(name, range(scaled(300)), tmp_path)[:5]


def test_every_target_has_seeds_and_the_same_cases_each_time() -> None:
    assert sorted(folder.name for folder in SEEDS.iterdir()) == NAMES
    assert [case("secrets", number) for number in range(20)] == [
        case("secrets", number) for number in range(20)
    ]
    assert len({case("secrets", number) for number in range(20)}) > 15


def test_the_target_with_the_fewest_cases_is_next_until_each_has_enough() -> None:
    few = {"a": FLOOR, "b": 0, "c": 200}
    assert next_target(few, {"a": 0.0, "b": 9.0, "c": 0.0}) == "b"
    assert next_target(few, {"a": 0.0, "c": 9.0}) == "c"
    enough = {"a": AIM, "b": FLOOR, "c": AIM - 1}
    assert next_target(enough, {"a": 0.0, "b": 9.0, "c": 2.0}) == "c"
    assert next_target(enough, {"a": 0.0}) is None


def test_another_error_an_error_of_several_lines_and_a_hang_are_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: bytes, __: Path) -> None:
        raise KeyError("x")

    def fail_in_lines(_: bytes, __: Path) -> None:
        raise StoreError("a\nb")

    def hang(_: bytes, __: Path) -> None:
        until = time.process_time() + 20
        while time.process_time() < until:
            pass

    monkeypatch.setattr("tests.fuzz.targets.CASE_SECONDS", 0.2)
    for function, fault in (
        (fail, "KeyError"),
        (fail_in_lines, "several lines"),
        (hang, "no end after 0.2 s"),
    ):
        monkeypatch.setitem(TARGETS, "secrets", function)
        assert fault in run_case("secrets", 0, tmp_path)[0]
