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
MAX_FUNCTION_LINES = 40
MAX_FILE_LINES = 400
LOOP_FILE_LINES = 120


def test_rooms_import_downward_only() -> None:
    """The import contracts of pyproject.toml hold, exhaustively."""
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_files_and_functions_stay_short(path: Path) -> None:
    """House rule 12: a function is read on one screen, a file in one sitting."""
    text = path.read_text(encoding="utf-8")
    ceiling = LOOP_FILE_LINES if path.match("loop/loop.py") else MAX_FILE_LINES
    assert text.count("\n") <= ceiling
    functions = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    long = [node.name for node in functions if (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION_LINES]
    assert not long


FORBIDDEN = re.compile(
    r"manager|handler|helper|util|factory|condense|checkpoint|rollout|^get_|^handle_|^process|^do_|_v2$",
    re.IGNORECASE,
)

OTHERS_NAMES = {
    "get_command", "handle_starttag", "handle_endtag", "handle_data",
    "get_items", "get_serialization_name", "get_toolset",
}  # fmt: skip
"""Methods that a library calls by its own name."""


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_public_names_keep_to_the_glossary(path: Path) -> None:
    """House rule 8: one word per concept; these words stand for none of ours."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    names = [
        node.name for node in ast.walk(tree) if isinstance(node, kinds) and not node.name.startswith("_")
    ]
    assert not [name for name in names if FORBIDDEN.search(name) and name not in OTHERS_NAMES]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    """House rule 10: a module's docstring is its contract, six lines at most."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring
    assert docstring.count("\n") < 30 if path.name == "errors.py" else docstring.count("\n") < 7


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
