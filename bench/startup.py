"""How long `nacre --version` and other commands take beside a Python that does nothing, and their CPU time.

Runs the `nacre` of the environment whose Python runs this.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from bench.machine import bar
from nacre.messages.blocks import JsonObject

LIMIT_MS = 60.0
"""What `--version` may cost over a bare Python."""
MAX_MODULES = 220
"""Half of what `nacre.open_agent` once imported."""
LIST_MODULES = "import sys; from nacre import open_agent; print(*sys.modules)"
SCRIPT = str(Path(sys.executable).parent / "nacre")
BARE, VERSION = "python -c pass", "nacre --version"
COMMANDS = {
    BARE: [sys.executable, "-c", "pass"],
    VERSION: [SCRIPT, "--version"],
    "python -m nacre --version": [sys.executable, "-m", "nacre", "--version"],
    "nacre --help": [SCRIPT, "--help"],
    "nacre doctor --json": [SCRIPT, "doctor", "--json"],
    "nacre -p hello": [SCRIPT, "-p", "hello"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    rounds: int = 30


FULL = Sizes()
TINY = Sizes(rounds=2)


def measure(sizes: Sizes = FULL) -> JsonObject:
    with tempfile.TemporaryDirectory() as folder:
        environ = _environ(folder)
        times, cpu = _measured(environ, folder, sizes.rounds)
        listed = subprocess.run(
            [sys.executable, "-c", LIST_MODULES], check=True, stdout=subprocess.PIPE, env=environ, cwd=folder
        )
    modules = len([name for name in listed.stdout.split() if name.partition(b".")[0] == b"nacre"])
    over = [version - bare for version, bare in zip(times[VERSION], times[BARE], strict=True)]
    return {
        "rounds": sizes.rounds,
        "median_ms": {name: round(median(taken), 2) for name, taken in times.items()},
        "fastest_ms": {name: round(min(taken), 2) for name, taken in times.items()},
        "median_cpu_ms": {name: round(median(taken), 2) for name, taken in cpu.items()},
        "version_over_python_ms": {
            "median": round(median(over), 2),
            "middle_half": [round(edge, 2) for edge in quantiles(over, n=4)[::2]],
        },
        "bars": [
            bar("nacre --version over a bare Python, ms", round(median(over), 2), at_most=LIMIT_MS),
            bar("modules of nacre that open_agent imports", modules, at_most=MAX_MODULES),
        ],
    }


def _measured(
    environ: dict[str, str], cwd: str, rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return milliseconds and CPU milliseconds per command and round.

    Commands run side by side, so that other load falls on all of them alike.
    """
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    cpu: dict[str, list[float]] = {name: [] for name in COMMANDS}
    names = list(COMMANDS)
    for turn in range(-1, rounds):
        # In a fixed order each command would always inherit the caches and clock speed its neighbour left:
        # that made a bare Python look slower than nacre.
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            start = time.perf_counter()
            subprocess.run(COMMANDS[name], check=True, stdout=subprocess.DEVNULL, env=environ, cwd=cwd)
            taken = (time.perf_counter() - start) * 1000
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if turn >= 0:  # the round before only compiled the files and warmed the disk
                times[name].append(taken)
                used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                cpu[name].append(used * 1000)
    return times, cpu


def _environ(folder: str) -> dict[str, str]:
    """As after an installation: compiled files are kept, and nothing of the tester's own is configured."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": folder, "PYTHONPYCACHEPREFIX": f"{folder}/compiled"}
