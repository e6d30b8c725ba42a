"""Words for people: how to have what is missing."""

from __future__ import annotations

import sys
from pathlib import Path

from nacre.plain import how_to_install


def test_what_is_missing_is_installed_from_where_nacre_came(tmp_path: Path) -> None:
    """A checkout is on no index; an installed package has no project file two folders up."""
    there = tmp_path / "my project" / "src" / "nacre" / "plain.py"
    there.parent.mkdir(parents=True)
    assert how_to_install("mcp", source=there) == f"{sys.executable} -m pip install 'nacre[mcp]'"
    (tmp_path / "my project" / "pyproject.toml").touch()
    checkout = f"{sys.executable} -m pip install -e '{tmp_path}/my project[mcp]'"
    assert how_to_install("mcp", source=there) == checkout
