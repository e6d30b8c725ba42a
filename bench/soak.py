"""Storms and property tests at full counts: `python -m bench.soak [PYTEST ARGUMENTS]`, or `make soak`.

Runs the tests marked `soak` with twenty times their usual counts. Writes the number of tests, failures, the
longest durations, figures that tests record and the machine to bench/results/soak.json; a run of one file or
folder, such as tests/faults, to soak.faults.json. Exit code 1 means that a test failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from bench.machine import keep
from nacre.messages.blocks import JsonObject

SCALE = "20"
LONGEST = 20
"""Tests whose duration is written."""


def main(arguments: Sequence[str]) -> int:
    scale = os.environ.get("TEST_SCALE", SCALE)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-m",
            "soak",
            "-n",
            "2",
            f"--junitxml={report}",
            *arguments,
        ]
        done = subprocess.run(command, env={**os.environ, "TEST_SCALE": scale}, check=False)
        if not report.exists():
            return done.returncode
        figures = read_report(report)
    figures = {"scale": float(scale), "arguments": [*arguments], **figures}
    part = next((f".{Path(one).stem}" for one in arguments if one.startswith("tests/")), "")
    keep(f"soak{part}", {**figures, "seconds": round(time.monotonic() - began)})
    return done.returncode


def read_report(path: Path) -> JsonObject:
    """Return the counts and the longest tests of a JUnit report."""
    cases = list(ET.parse(path).iter("testcase"))
    failed = [one for one in cases if one.find("failure") is not None or one.find("error") is not None]
    seconds = {_name(one): round(float(one.get("time", "0")), 1) for one in cases}
    longest = sorted(seconds, key=lambda name: -seconds[name])[:LONGEST]
    return {
        "tests": len(cases),
        "skipped": sum(one.find("skipped") is not None for one in cases),
        "failed": [_name(one) for one in failed],
        "figures": {_name(one): found for one in cases if (found := _figures(one))},
        "longest_seconds": {name: seconds[name] for name in longest},
    }


def _figures(case: ET.Element) -> JsonObject:
    return {str(one.get("name")): float(one.get("value", "0")) for one in case.iter("property")}


def _name(case: ET.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
