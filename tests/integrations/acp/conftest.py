"""A project and a home for the tests of editors."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A project with one file."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "app.py").write_text("one = 1\ntwo = 2\n")
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder
