"""The TypeScript client, compiled with its examples and run by node against a real `nacre serve`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.architecture.pages import fences

ROOT = Path(__file__).parents[2] / "clients" / "typescript"
NODE, NPM = shutil.which("node"), shutil.which("npm")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the client, compiled; the packages that it is compiled with are installed once."""
    if not NODE or not NPM:
        pytest.skip("node and npm are missing, which compile and run the client")
    if not (ROOT / "node_modules" / "typescript").is_dir():
        command = [NPM, "install", "--no-audit", "--no-fund", "--no-package-lock", "--prefix", str(ROOT)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip("npm did not install the packages of clients/typescript within 240 s")
        if done.returncode:
            pytest.skip(f"npm could not install the packages of clients/typescript: {done.stderr[-200:]}")
    folder = tmp_path_factory.mktemp("typescript") / "client"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
    page = (ROOT.parents[1] / "docs" / "how-to" / "use-from-typescript.md").read_text(encoding="utf-8")
    blocks = [body for kind, _, body in fences(page) if kind == "typescript"]
    assert len(blocks) == 3
    (folder / "examples" / "page.ts").write_text("\n".join(blocks), encoding="utf-8")
    (folder / "node_modules").symlink_to(ROOT / "node_modules")
    compiled = subprocess.run(
        [NODE, "node_modules/typescript/bin/tsc"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert compiled.returncode == 0, compiled.stdout
    return folder


@contextmanager
def served(home: Path) -> Iterator[dict[str, str]]:
    """Run a server on a new home; yield the variables with its address and the key of an administrator."""
    environ = {**os.environ, "NACRE_HOME": str(home)}
    made = subprocess.run(
        [sys.executable, "-m", "nacre", "keys", "create", "--role", "admin"],
        env=environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    command = [sys.executable, "-m", "nacre", "serve", "--json"]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        try:
            address = json.loads(server.stdout.readline())["url"]
            yield {**environ, "NACRE_URL": address, "NACRE_KEY": made.stdout.strip()}
        finally:
            server.terminate()


@pytest.mark.slow
def test_the_client_and_the_example_of_the_ai_sdk_work_with_a_real_server(
    built: Path, tmp_path: Path
) -> None:
    with served(tmp_path / "home") as environ:
        ran = subprocess.run(
            [str(NODE), "--test", "dist/test/"],
            cwd=built, env=environ, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout
        assert "# fail 0" in ran.stdout
        assert "# pass 9" in ran.stdout
        page = subprocess.run(
            [str(NODE), "dist/examples/page.js"],
            cwd=built, env=environ, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert page.returncode == 0, page.stderr
        assert "The build server is heron, in the basement." in page.stdout
        example = subprocess.run(
            [str(NODE), "dist/examples/ai-sdk.js"],
            cwd=built, env=environ, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert example.returncode == 0, example.stderr
    content = json.loads(example.stdout)["content"]
    assert content[0]["text"] == "Which server do we build on?"
    assert any("our build server is heron" in part["text"] for part in content[1:])


def test_the_client_needs_no_package_at_run_time() -> None:
    package = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    assert "dependencies" not in package
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").glob("*.ts")]
    assert len(sources) == 3
    imports = [
        line for text in sources for line in text.splitlines() if " from " in line and "import" in line
    ]
    assert [line for line in imports if 'from "./' not in line] == []
