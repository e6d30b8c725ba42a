"""`python -m bench.public ADAPTER … [--task NAME] [--tiny] [--recordings FOLDER] [--out FOLDER]`.

An adapter is a name of `adapters/__init__.py`, or `package.module:Class` of your own. Results are written to
`bench/public/results/NAME.json`; `make docs` makes the leaderboard from them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

from bench.machine import machine
from bench.public.adapter import Adapter
from bench.public.adapters import ADAPTERS
from bench.public.tasks import TASKS
from nacre.clock import SYSTEM_CLOCK
from nacre.devtools.replay.recorded import read_recorded
from nacre.inspect.sources import files_in

RESULTS = Path(__file__).parent / "results"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.public", description=__doc__)
    parser.add_argument("adapters", nargs="+", metavar="ADAPTER", help=", ".join(ADAPTERS))
    parser.add_argument("--task", action="append", choices=list(TASKS), help="only this; may be repeated")
    parser.add_argument("--tiny", action="store_true", help="a few items of each task; writes nothing")
    parser.add_argument("--recordings", type=Path, help="session logs of Claude Code for the task `sessions`")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    given = parser.parse_args(words)
    if given.out.exists() and not given.out.is_dir():
        parser.error(f"--out: {given.out} is a file; name a folder")
    recordings = _recordings(given.recordings)
    if given.recordings and not recordings:
        parser.error(f"--recordings: there is no session log in {given.recordings}")
    status = 0
    for name in given.adapters:
        try:
            adapter = load(name)
            version = adapter.version()
        except (ImportError, SyntaxError, ValueError) as error:
            why = f"{error.name} is not installed" if isinstance(error, PackageNotFoundError) else error
            print(f"{name}: left out, {why}", file=sys.stderr)
            status = 1
            continue
        try:
            figures = run(adapter, given.task or list(TASKS), is_tiny=given.tiny, recordings=recordings)
        except KeyboardInterrupt:
            print(f"{name}: stopped, and no result of it was written", file=sys.stderr)
            return 130
        print(json.dumps({name: figures}, indent=1))
        if not given.tiny:
            keep(adapter, version, figures, given.out)
    return status


def load(name: str) -> type[Adapter]:
    """Return an adapter by its name or by `package.module:Class`."""
    where, _, attribute = ADAPTERS.get(name, name).partition(":")
    if not where or not attribute:
        raise ValueError(f"write package.module:Class or one of {', '.join(ADAPTERS)}")
    found: Any = getattr(import_module(where), attribute, None)
    if not isinstance(found, type) or not issubclass(found, Adapter) or not hasattr(found, "name"):
        raise ValueError(f"{attribute} of {where} is not a subclass of Adapter that has a `name`")
    return found


def run(adapter: type[Adapter], tasks: list[str], *, is_tiny: bool, recordings: Any = ()) -> dict[str, Any]:
    """Return the figures of each task; None for a task that the program cannot do without a model."""
    found: dict[str, Any] = {}
    for task in tasks:
        began = time.process_time()
        extra = {"recordings": recordings} if task == "sessions" and recordings else {}
        print(f"{adapter.name}: {task}", file=sys.stderr)
        figures = TASKS[task](adapter, is_tiny=is_tiny, **extra)
        found[task] = figures and {**figures, "cpu_seconds": round(time.process_time() - began, 1)}
    return found


def keep(adapter: type[Adapter], version: str, figures: dict[str, Any], folder: Path) -> None:
    """Write the results; tasks that were not run keep theirs."""
    path = folder / f"{adapter.name}.json"
    before = json.loads(path.read_text(encoding="utf-8"))["tasks"] if path.exists() else {}
    date = SYSTEM_CLOCK.now().date().isoformat()
    dated = {name: one and {**one, "date": date} for name, one in figures.items()}
    result = {
        "program": adapter.name,
        "version": version,
        "how": adapter.how,
        "machine": machine(),
        "tasks": before | dated,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _recordings(folder: Path | None) -> tuple[Any, ...]:
    if folder is None:
        return ()
    return tuple(one for path in files_in(folder) for one in read_recorded(path))


if __name__ == "__main__":
    sys.exit(main())
