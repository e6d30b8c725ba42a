"""Words for people: how to have what is missing."""

from __future__ import annotations

import sys
from pathlib import Path

from nacre.formatting import clean, how_to_install


def test_what_is_missing_is_installed_from_where_nacre_came(tmp_path: Path) -> None:
    """A checkout is on no index; an installed package has no project file two folders up."""
    there = tmp_path / "my project" / "src" / "nacre" / "plain.py"
    there.parent.mkdir(parents=True)
    assert how_to_install("mcp", source=there) == f"{sys.executable} -m pip install 'nacre-memory[mcp]'"
    (tmp_path / "my project" / "pyproject.toml").touch()
    checkout = f"{sys.executable} -m pip install -e '{tmp_path}/my project[mcp]'"
    assert how_to_install("mcp", source=there) == checkout


def test_what_is_said_keeps_its_letters_and_loses_what_repaints() -> None:
    """A family is three people joined, and a Persian word may need a joiner that joins nothing."""
    family, word = (
        "\U0001f469\u200d\U0001f469\u200d\U0001f467",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    )
    assert clean(f"{family}\t{word}\n") == f"{family}\t{word}\n"
    assert clean("a\x1b[2J\u202eb\x07") == "a[2Jb"
