"""The distribution: what its files are called, that it installs, and what pages say about it."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import sysconfig
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
def test_the_wheel_and_the_sdist_carry_the_name_and_both_install_and_run(tmp_path: Path) -> None:
    built = tmp_path / "dist"
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(built), cwd=ROOT)
    [wheel], [sdist] = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        [metadata] = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        described = email.message_from_bytes(opened.read(metadata))
    assert (described["Name"], described["Version"]) == (NAME, VERSION)
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    source = tmp_path / sdist.name.removesuffix(".tar.gz")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "again"), cwd=source)
    [from_sdist] = (tmp_path / "again").glob("*.whl")
    for number, one in enumerate((wheel, from_sdist)):
        installs_and_runs(one, tmp_path / f"fresh-{number}")


def installs_and_runs(wheel: Path, place: Path) -> None:
    """Install a wheel into a new environment, list it, save a memory and find it again."""
    venv.create(place)
    python = place / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", str(python))
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel), cwd=place)
    nacre = str(place / "bin" / "nacre")
    assert run(nacre, "--version", cwd=place) == f"nacre {VERSION}\n"
    listed = run(*pip, "list", "--format=freeze", cwd=place)
    assert listed == f"{NAME}=={VERSION}\n"
    # Dependencies come from the environment of the tests; its editable nacre is named in a `.pth` file, which
    # Python does not read in a folder that another `.pth` file adds.
    site = Path(run(str(python), "-c", "import site; print(site.getsitepackages()[0])", cwd=place).strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    environ = {"PATH": os.defpath, "HOME": str(place), "NACRE_HOME": str(place / "home")}
    where = run(str(python), "-c", "import nacre; print(nacre.__file__)", cwd=place, environ=environ)
    assert Path(where.strip()).is_relative_to(site)
    run(nacre, "-p", "remember that I prefer tabs", cwd=place, environ=environ)
    assert "I prefer tabs" in run(nacre, "memory", "search", "tabs", cwd=place, environ=environ)


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


def run(*command: str, cwd: Path, environ: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=environ, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
