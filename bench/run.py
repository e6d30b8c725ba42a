"""Run benchmarks and keep their figures under bench/results: `python -m bench.run [--tiny] [NAME ...]`.

Each runs in a process of its own, so that none inherits the memory of another. `--tiny` only shows that they
run: nothing is kept. Exit code 1 means that a bar was missed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from bench.machine import RESULTS, bars, keep
from nacre.messages.blocks import JsonObject

NAMES = (
    "startup",
    "terminal",
    "files_entered",
    "fold",
    "prepare",
    "ledger_sim",
    "logs",
    "opening",
    "memory",
    "recall",
    "recall.speed",
    "recall.selector",
    "staleness",
    "poisoning",
    "secrets",
    "purge",
    "dream",
    "mail",
    "agents_idle",
    "forks",
    "notes",
    "replay",
    "layers",
    "compaction.inventions",
    "compaction.survival",
    "compaction.speed",
    "compaction.blocking",
    "compaction.faults",
    "extract",
    "real_sessions",
    "gateway",
    "console",
    "server.scale",
    "server.tenants",
    "server.kills",
    "server.peers",
)
TINY = "--tiny"


def main(arguments: Sequence[str]) -> int:
    is_tiny = TINY in arguments
    names = [name for name in arguments if name != TINY] or list(NAMES)
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"there is no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    if len(names) > 1:
        return max(_apart(name, is_tiny=is_tiny) for name in names)
    return run(names[0], is_tiny=is_tiny)


def run(name: str, *, is_tiny: bool = False, folder: Path = RESULTS) -> int:
    """Measure, keep and show one benchmark."""
    module = import_module(f"bench.{name}")
    figures: JsonObject = module.measure(module.TINY if is_tiny else module.FULL)
    if not is_tiny and "skipped" not in figures:
        keep(name, figures, folder=folder)
        if hasattr(module, "plot"):
            (folder / f"{name}.svg").write_text(module.plot(figures), encoding="utf-8")
        if hasattr(module, "pages"):
            for file, text in module.pages(figures).items():
                (folder / file).write_text(text, encoding="utf-8")
    print(name, figures.get("skipped", ""))
    for one in bars(figures):
        limit = f"at most {one['at_most']}" if "at_most" in one else f"at least {one['at_least']}"
        print(f"  {'met   ' if one['met'] else 'MISSED'}  {one['what']}: {one['measured']} ({limit})")
    # Tiny sizes say nothing about speed, so that they cannot miss a bar.
    return 0 if is_tiny or all(one["met"] for one in bars(figures)) else 1


def _apart(name: str, *, is_tiny: bool) -> int:
    command = [sys.executable, "-m", "bench.run", name, *([TINY] if is_tiny else [])]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
