"""Programs of other agents, installed with npm for a test."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

NPM = shutil.which("npm")
INSTALLED = os.environ.get("NACRE_TEST_AGENTS", "")
"""A folder with the programs, so that the tests need not install them."""

NEEDS_AGENTS = pytest.mark.skipif(
    not NPM and not INSTALLED, reason="npm is missing, which installs the agents"
)


def installed_agents(folder: Path, packages: Sequence[str]) -> Path:
    """Return the folder with the programs of npm packages; skips the test if they cannot be installed."""
    if INSTALLED:
        return Path(INSTALLED)
    command = [str(NPM), "install", "--no-audit", "--no-fund", "--prefix", str(folder), *packages]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm installed no agents within 240 s")
    if done.returncode:
        pytest.skip(f"npm could not install the agents: {done.stderr.strip()[-200:]}")
    return folder / "node_modules" / ".bin"
