"""How long `nacre --version` takes beside a Python that does nothing; writes bench/results/startup.json.

Run with the Python of the environment nacre is installed in: `python bench/startup.py`.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

from nacre import __version__
from nacre.clock import SYSTEM_CLOCK

ROUNDS = 30
LIMIT_MS = 60.0
"""What `--version` may cost over a bare Python."""
RESULT = Path(__file__).parent / "results" / "startup.json"
SCRIPT = str(Path(sys.executable).parent / "nacre")
BARE, VERSION = "python -c pass", "nacre --version"
COMMANDS = {
    BARE: [sys.executable, "-c", "pass"],
    VERSION: [SCRIPT, "--version"],
    "python -m nacre --version": [sys.executable, "-m", "nacre", "--version"],
    "nacre --help": [SCRIPT, "--help"],
    "nacre doctor --json": [SCRIPT, "doctor", "--json"],
}


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        times = _measured(_environ(folder), folder)
    over = [version - bare for version, bare in zip(times[VERSION], times[BARE], strict=True)]
    result = {
        "date": SYSTEM_CLOCK.now().date().isoformat(),
        "version": __version__,
        "machine": {
            "system": platform.system(),
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2),
            "python": platform.python_version(),
        },
        "rounds": ROUNDS,
        "median_ms": {name: round(median(taken), 2) for name, taken in times.items()},
        "fastest_ms": {name: round(min(taken), 2) for name, taken in times.items()},
        "version_over_python_ms": {
            "median": round(median(over), 2),
            "middle_half": [round(edge, 2) for edge in quantiles(over, n=4)[::2]],
        },
        "limit_ms": LIMIT_MS,
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))
    return 0 if median(over) <= LIMIT_MS else 1


def _measured(environ: dict[str, str], cwd: str) -> dict[str, list[float]]:
    """Milliseconds per command and round, side by side, so that other load falls on all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    names = list(COMMANDS)
    for turn in range(-1, ROUNDS):
        # In a fixed order each command would always inherit the caches and clock speed its neighbour left:
        # that made a bare Python look slower than nacre.
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            start = time.perf_counter()
            subprocess.run(COMMANDS[name], check=True, stdout=subprocess.DEVNULL, env=environ, cwd=cwd)
            taken = (time.perf_counter() - start) * 1000
            if turn >= 0:  # the round before only compiled the files and warmed the disk
                times[name].append(taken)
    return times


def _environ(folder: str) -> dict[str, str]:
    """As after an installation: compiled files are kept, and nothing of the tester's own is configured."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": folder, "PYTHONPYCACHEPREFIX": f"{folder}/compiled"}


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


if __name__ == "__main__":
    sys.exit(main())
