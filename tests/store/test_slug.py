"""The folder name of a path, and where home is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import ConfigError
from nacre.store.home import home, same_folder, slug


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/user/My_Repo", "-home-user-My-Repo"),
        ("/a.b/c d", "-a-b-c-d"),
        ("/项目", "---"),
        ("/😀", "---"),
        ("", ""),
        ("x" * 200, "x" * 200),
    ],
)
def test_every_utf16_unit_outside_letters_and_digits_becomes_a_dash(path: str, expected: str) -> None:
    """M2; a character beyond the first plane is two units and two dashes."""
    assert slug(path) == expected


@pytest.mark.parametrize("path", ["/" + "a" * 200, "/home/" + "b_" * 120, "/" + "😀" * 150])
def test_a_long_path_ends_in_the_base_36_hash_of_the_original(path: str) -> None:
    """M2: checked against a plain spelling of the rule that uses Python's own big integers."""
    units = path.encode("utf-16-be")
    total = sum(
        int.from_bytes(units[i : i + 2]) * 31 ** (len(units) // 2 - 1 - i // 2)
        for i in range(0, len(units), 2)
    )
    signed = (total + 2**31) % 2**32 - 2**31
    plain, dash, tail = slug(path)[:200], slug(path)[200], slug(path)[201:]
    assert (len(plain), dash, int(tail, 36)) == (200, "-", abs(signed))
    assert tail == tail.lower()


def test_known_hashes_are_what_the_string_hash_of_java_gives() -> None:
    """M2: 'polygenelubricants' famously hashes to -2**31, whose absolute value no 32-bit integer holds."""
    prefix = "\0" * 200  # zeros leave the hash alone and make the path long enough to be hashed
    assert slug(prefix + "polygenelubricants") == "-" * 200 + "-zik0zk"
    assert slug(prefix + "\0") == "-" * 200 + "-0"


@given(st.text(max_size=300))
def test_a_slug_is_a_safe_file_name_for_any_path(path: str) -> None:
    made = slug(path)
    assert all(char.isascii() and (char.isalnum() or char == "-") for char in made)
    assert len(made) <= 208
    units = len(path.encode("utf-16-le", "surrogatepass")) // 2
    assert (len(made) == units) if units <= 200 else made[200] == "-"


def test_a_slug_takes_undecodable_bytes_of_a_path() -> None:
    assert slug("/a\udc80b") == "-a-b"


def test_home_is_named_by_our_variable_then_the_alias_then_the_default() -> None:
    """M1, M7: the NACRE_ name wins."""
    both = {"NACRE_HOME": "/n", "CLAUDE_CONFIG_DIR": "/c", "HOME": "/h"}
    assert home(both) == Path("/n")
    assert home({"CLAUDE_CONFIG_DIR": "/c", "HOME": "/h"}) == Path("/c")
    assert home({"HOME": "/h", "NACRE_HOME": ""}) == Path("/h/.nacre")


def test_a_relative_home_is_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigError, match="absolute path"):
        home({"NACRE_HOME": "here"})


def test_folders_of_a_long_path_match_whatever_hash_they_end_in() -> None:
    """M2: runtimes hash differently, so readers go by the first 200."""
    long = slug("/" + "a" * 300)
    assert same_folder(long[:201] + "other", long)
    assert not same_folder(long[:199] + "b-other", long)
    assert same_folder("-a", "-a")
    assert not same_folder("-a-b", "-a")
