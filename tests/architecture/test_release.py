"""A release: the same bytes from the same commit, checked contents, an installation without a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from nacre.version import VERSION

ROOT = Path(__file__).parents[2]
EPOCH = "1790000000"
SHARED = ROOT.parent / "shared" / "data"
"""Recordings that are not part of the repository."""
LEAST_BYTES = 400
"""Shorter files are equal by chance."""


def release(root: Path, out: Path) -> list[Path]:
    environ = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    done = subprocess.run(
        [sys.executable, ".ci/release.py", "--out", str(out)],
        cwd=root, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return sorted(out.iterdir())


def copy_of(root: Path, to: Path) -> Path:
    """Copy what a commit of the checkout would have, with other times and modes."""
    named = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True,
    ).stdout.decode().split("\0")  # fmt: skip
    for name in filter(None, named):
        if (root / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, to / name)
            (to / name).chmod(0o600 if not os.access(root / name, os.X_OK) else 0o700)
    return to


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """SBOM, wheel and sdist of this checkout."""
    return release(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.mark.slow
def test_two_builds_have_the_same_bytes(built: list[Path], tmp_path: Path) -> None:
    elsewhere = copy_of(ROOT, tmp_path / "elsewhere")
    again = release(elsewhere, tmp_path / "dist")
    assert [one.name for one in again] == [one.name for one in built]
    assert {
        one.name for one, two in zip(built, again, strict=True) if one.read_bytes() != two.read_bytes()
    } == set()


@pytest.mark.slow
def test_the_components_are_those_of_the_wheel_and_its_extras(built: list[Path]) -> None:
    sbom = json.loads(built[0].read_text())
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.6")
    own = sbom["metadata"]["component"]
    assert (own["version"], own["licenses"]) == (VERSION, [{"expression": "MIT AND Apache-2.0"}])
    scopes = {one["name"].lower(): one.get("scope") for one in sbom["components"]}
    assert {scopes[name] for name in ("anyio", "click", "h11", "httpx2", "pydantic", "pyyaml")} == {
        "required"
    }
    assert {scopes[name] for name in ("anthropic", "textual", "mcp", "agent-client-protocol")} == {"optional"}
    assert not {"pytest", "ruff", "mem0ai", "hypothesis"} & set(scopes)
    assert "all-minilm-l6-v2" in scopes
    refs = {one["bom-ref"] for one in sbom["components"]} | {own["bom-ref"]}
    assert {one["ref"] for one in sbom["dependencies"]} | {"all-MiniLM-L6-v2"} == refs
    assert all(set(one["dependsOn"]) <= refs for one in sbom["dependencies"])
    required = next(one for one in sbom["dependencies"] if one["ref"] == own["bom-ref"])["dependsOn"]
    assert any(one.startswith("pkg:pypi/click@") for one in required)


@pytest.mark.slow
def test_a_file_that_must_not_be_there_stops_the_release(tmp_path: Path) -> None:
    checkout = copy_of(ROOT, tmp_path / "checkout")
    (checkout / "src" / "nacre" / "server.key").write_text("secret")
    environ = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    done = subprocess.run(
        [sys.executable, ".ci/release.py", "--out", str(tmp_path / "out")],
        cwd=checkout, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "holds src/nacre/server.key" in done.stderr


MAY_BE_COMMITTED = {"everyday", "everyday_extract"}
"""Invented data whose notes allow it."""


@pytest.mark.slow
@pytest.mark.real_data
def test_nothing_of_the_recordings_is_in_a_distribution(built: list[Path]) -> None:
    if not SHARED.is_dir():
        pytest.skip("there are no recordings here")
    known = {
        path.read_bytes(): path
        for path in SHARED.rglob("*")
        if path.parent.name not in MAY_BE_COMMITTED
        and path.is_file()
        and LEAST_BYTES <= path.stat().st_size <= 5_000_000
    }
    with tarfile.open(built[2]) as packed:
        inside = {one.name: packed.extractfile(one) for one in packed.getmembers() if one.isfile()}
        found = {
            name: known[data] for name, file in inside.items() if file and (data := file.read()) in known
        }
    assert found == {}


@pytest.mark.slow
def test_the_wheel_installs_without_a_network_from_downloaded_wheels(
    built: list[Path], tmp_path: Path
) -> None:
    wheel = next(one for one in built if one.suffix == ".whl")
    wheels = tmp_path / "wheels"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    got = subprocess.run(
        [*pip, "download", "-c", str(ROOT / "constraints.txt"), "-d", str(wheels), str(wheel)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if got.returncode:
        pytest.skip(f"no package index is reachable: {got.stderr.strip().splitlines()[-1:]}")
    place = tmp_path / "fresh"
    venv.create(place)
    unreachable = {"PATH": os.defpath, "HOME": str(place), "PIP_CONFIG_FILE": os.devnull}
    offline = ["install", "--no-index", "--find-links", str(wheels), "nacre-memory"]
    subprocess.run([*pip, "--python", str(place / "bin" / "python"), *offline], check=True, env=unreachable)

    def run(*args: str) -> str:
        environ = {"PATH": os.defpath, "HOME": str(place), "NACRE_HOME": str(place / "home")}
        done = subprocess.run(
            [place / "bin" / "nacre", *args],
            env=environ,
            cwd=place,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert run("--version") == f"nacre {VERSION}\n"
    run("-p", "remember that I prefer tabs")
    assert "I prefer tabs" in run("memory", "search", "tabs")
    with zipfile.ZipFile(wheel) as opened:
        assert all(one.date_time[:3] == (2026, 9, 21) for one in opened.infolist())


def test_the_issue_forms_are_valid_and_ask_for_what_helps() -> None:
    forms: dict[str, Any] = {
        path.stem: yaml.safe_load(path.read_text())
        for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")
    }
    assert set(forms) == {"bug", "config", "idea", "memory"}
    for name, form in forms.items():
        if name == "config":
            continue
        assert {"name", "description", "body"} <= set(form)
        ids = [field["id"] for field in form["body"] if field["type"] != "markdown"]
        assert len(ids) == len(set(ids))
        assert all(field["attributes"]["label"] for field in form["body"] if field["type"] != "markdown")
    assert "nacre doctor" in str(forms["bug"]) and "SECURITY.md" in str(forms["bug"])


def test_the_changelog_begins_with_this_version_or_with_what_comes_after_it() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    headings = [line.removeprefix("## ") for line in lines if line.startswith("## ")]
    versions = [one for one in headings if one != "Unreleased"]
    assert versions[0].split(" ")[0] == VERSION
    assert headings[0] in {"Unreleased", versions[0]}
