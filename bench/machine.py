"""What every benchmark shares: the machine it ran on, times as figures, bars, and results on disk."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from nacre import __version__
from nacre.clock import SYSTEM_CLOCK
from nacre.messages.blocks import JsonObject

RESULTS = Path(__file__).parent / "results"


def keep(name: str, figures: JsonObject, *, folder: Path = RESULTS) -> JsonObject:
    """Write one benchmark's figures, with when and where they were measured, to `<folder>/<name>.json`."""
    result: JsonObject = {
        "benchmark": name,
        "date": SYSTEM_CLOCK.now().isoformat(timespec="seconds"),
        "version": __version__,
        "machine": machine(),
        **figures,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return result


def machine() -> JsonObject:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
    }


def bar(
    what: str, measured: float, *, at_most: float | None = None, at_least: float | None = None
) -> JsonObject:
    """One promise and whether this run kept it."""
    if at_most is not None:
        return {"what": what, "measured": measured, "at_most": at_most, "met": measured <= at_most}
    assert at_least is not None
    return {"what": what, "measured": measured, "at_least": at_least, "met": measured >= at_least}


def bars(figures: JsonObject) -> list[JsonObject]:
    """The promises a benchmark measured."""
    found = figures.get("bars")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def spread(nanoseconds: Sequence[int]) -> JsonObject:
    """The middle and the slow end of many times, in microseconds."""
    return {
        "p50_us": middle_us(nanoseconds),
        "p99_us": _share_us(nanoseconds, 0.99),
        "samples": len(nanoseconds),
    }


def middle_us(nanoseconds: Sequence[int]) -> float:
    return _share_us(nanoseconds, 0.5)


def _share_us(nanoseconds: Sequence[int], share: float) -> float:
    ranked = sorted(nanoseconds)
    return round(ranked[min(len(ranked) - 1, int(len(ranked) * share))] / 1000, 2)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
