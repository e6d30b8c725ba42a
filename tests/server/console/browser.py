"""A Chromium of the system, driven by Playwright; tests are skipped with the reason where it is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser with a profile of its own."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium here; `apt-get install chromium` brings it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def console(cwd: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Run `nacre console` in a directory; yields the link that it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "nacre", "console", "--no-browser", "--json"],
        cwd=cwd, env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield str(json.loads(process.stdout.readline())["url"])
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()
