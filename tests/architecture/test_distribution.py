"""The distribution: what its files are called, that it installs, and what pages say about it."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from nacre.version import VERSION

ROOT = Path(__file__).parents[2]
NAME = "nacre-memory"
OTHER_PROJECT = re.compile(r"pip3? install (?:[\w.=-]+ )*['\"]?nacre(?![\w/.-])|(?<![\w/-])nacre\[[a-z]")
"""A command that installs the distribution `nacre`, which is another project, or an extra of it."""


@pytest.mark.slow
def test_the_wheel_and_the_sdist_carry_the_name_and_the_wheel_installs(tmp_path: Path) -> None:
    built = tmp_path / "dist"
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(built), cwd=ROOT)
    [wheel], [sdist] = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        [metadata] = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        described = email.message_from_bytes(opened.read(metadata))
    assert (described["Name"], described["Version"]) == (NAME, VERSION)
    with tarfile.open(sdist) as packed:
        assert f"{sdist.name.removesuffix('.tar.gz')}/src/nacre/__main__.py" in packed.getnames()
    venv.create(tmp_path / "fresh")
    binaries = tmp_path / "fresh" / "bin"
    pip = (sys.executable, "-m", "pip", "--python", str(binaries / "python"))
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel), cwd=tmp_path)
    assert run(str(binaries / "nacre"), "--version", cwd=tmp_path) == f"nacre {VERSION}\n"
    listed = run(*pip, "list", "--format=freeze", cwd=tmp_path)
    assert listed == f"{NAME}=={VERSION}\n"


@pytest.mark.slow
def test_no_text_tells_anybody_to_install_another_project() -> None:
    named = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
    found = []
    for name in filter(None, named):
        path = ROOT / name
        if path.is_file() and path != Path(__file__):
            text = path.read_bytes().decode(errors="replace")
            found += [f"{name}: {one[0]}" for one in OTHER_PROJECT.finditer(text)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("pip install nacre", True),
        ("$ pip3 install -U nacre\n", True),
        ("python -m pip install 'nacre[tui]'", True),
        ("the extra `nacre[langchain]`", True),
        ("pip install 'nacre-memory[tui]'", False),
        ("pip install -e '/home/ada/nacre[tui]'", False),
        (".venv/bin/pip install -e '.[tui]'", False),
        ("pip install . && nacre chat", False),
    ],
)
def test_what_counts_as_such_a_text(text: str, is_found: bool) -> None:
    assert bool(OTHER_PROJECT.search(text)) is is_found


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
