"""Mutated seeds for every parser, for a time: `python -m bench.fuzz [--seconds N] [TARGET ...]`.

Continues with the case after the last one of the committed result, and adds to it: the aim is a million cases
per parser. The parser with the fewest cases is next until each has `FLOOR`; then all get the same time until
they have `AIM`. Exit code 1 means that a case failed; it is named.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.machine import RESULTS, bar, keep
from tests.fuzz.targets import CASE_SECONDS, TARGETS, run_case

SLICE = 200
"""Cases of one target in a row."""
SECONDS = 600
FLOOR = 20_000
AIM = 1_000_000
MEMORY = Path("/dev/shm")
"""Cases write their files there, if it exists: a flush to a disk takes longer than most parsers."""


def next_target(cases: Mapping[str, int], spent: Mapping[str, float]) -> str | None:
    """Return the target of the next slice, of those in `spent`; None if each has enough cases."""
    fewest = min(spent, key=cases.__getitem__)
    if cases[fewest] < FLOOR:
        return fewest
    return min((name for name in spent if cases[name] < AIM), key=spent.__getitem__, default=None)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("targets", nargs="*", choices=[[], *TARGETS])
    given = parser.parse_args(arguments)
    known = RESULTS / "fuzz.json"
    before = json.loads(known.read_text(encoding="utf-8")) if known.exists() else {}
    cases: dict[str, int] = {name: before.get("cases", {}).get(name, 0) for name in TARGETS}
    slowest: dict[str, float] = {name: before.get("slowest_ms", {}).get(name, 0.0) for name in TARGETS}
    spent = dict.fromkeys(given.targets or TARGETS, 0.0)
    failed: list[str] = []
    began = time.monotonic()
    while time.monotonic() < began + given.seconds:
        name = next_target(cases, spent)
        if name is None:
            break
        turn = time.monotonic()
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            for number in range(cases[name], cases[name] + SLICE):
                fault, seconds = run_case(name, number, Path(folder))
                slowest[name] = max(slowest[name], round(seconds * 1000, 1))
                if fault:
                    failed.append(f"{name} case {number}: {fault}")
                    print(failed[-1], flush=True)
        cases[name] += SLICE
        spent[name] += time.monotonic() - turn
    keep(
        "fuzz",
        {
            "seconds": round(before.get("seconds", 0) + time.monotonic() - began),
            "cases_total": sum(cases.values()),
            "cases": dict(sorted(cases.items())),
            "slowest_ms": dict(sorted(slowest.items())),
            "failed": failed,
            "bars": [
                bar("cases with an error that is not nacre's, or without an end", len(failed), at_most=0),
                bar("slowest case, ms of the processor", max(slowest.values()), at_most=CASE_SECONDS * 1000),
            ],
        },
    )
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
