"""A fresh Python in an empty directory, behind a guard that lets no connection leave the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TIMEOUT_SECONDS = 120
"""Far more than any example takes, so that only one that hangs is ended."""

GUARD = """
import socket

connect = socket.socket.connect

def guarded(self, address):
    if isinstance(address, tuple) and not str(address[0]).startswith(("127.", "localhost", "::1")):
        raise AssertionError(f"an example tried to connect to {address}")
    return connect(self, address)

socket.socket.connect = guarded
"""


def run_python(
    arguments: list[str], folder: Path, *, modules: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it in `folder/work`; warnings are errors. `modules` is a folder to import from."""
    guard, work = folder / "guard", folder / "work"
    guard.mkdir()
    work.mkdir()
    (guard / "sitecustomize.py").write_text(GUARD, encoding="utf-8")
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, filter(None, [guard, modules]))),
        "PYTHONWARNINGS": "error",
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=work,
        env=environ,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
