"""The shape of the code, as a contract: imports, sizes, names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "nacre").rglob("*.py"))
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 600
LOOP_FILE_LINES = 120


def test_rooms_import_downward_only() -> None:
    """The import contracts of pyproject.toml hold, exhaustively."""
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_files_and_functions_stay_short() -> None:
    """A function fits on one screen, a file can be read in one sitting."""
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= (LOOP_FILE_LINES if path.match("loop/loop.py") else MAX_FILE_LINES), path
        functions = (
            node
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )
        long = [
            node.name for node in functions if (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION_LINES
        ]
        assert not long, path


@pytest.mark.slow
def test_git_is_started_in_one_module() -> None:
    """Settings and environment of git are safe there; elsewhere, the word may be in a set or a comparison."""
    first_words = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.List | ast.Tuple) and node.elts and len(node.elts) > 1
        and isinstance(node.elts[0], ast.Constant) and re.fullmatch(r"(?:.*/)?git", str(node.elts[0].value))
    ]  # fmt: skip
    assert first_words == []
    lines = [line for path in SOURCES for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line for line in lines if re.search(r"""which\(["']git|[^=]= ["']git["']""", line)] == [
        '_PROGRAM = "git"'
    ]


def test_every_module_has_a_docstring() -> None:
    """The module docstring says what the module is for."""
    for path in SOURCES:
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_nothing_names_a_package_registry() -> None:
    """Committed files work with whatever registry a machine is set up for."""
    hosts = re.compile(rb"pypi\.org|pythonhosted|registry\.npmjs|files\.python")
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout.split(b"\0")
    found = [
        name for name in tracked
        if name and (ROOT / name.decode()).is_file() and not name.endswith(b"test_shape.py")
        and hosts.search((ROOT / name.decode()).read_bytes())
    ]  # fmt: skip
    assert not found
