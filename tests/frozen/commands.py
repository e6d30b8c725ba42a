"""`nacre` in this process, in a scene: what it prints, and how it ends."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from nacre.cli.main import main
from nacre.clock import SystemClock
from tests.frozen.scenes import Scene


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def nacre(scene: Scene, *args: str, stdin: str = "", **environ: str) -> Ended:
    """One command line, with the scene's project as the working directory."""
    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for name in ("stdout", "stderr")}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(scene.work)
        for name, value in {**scene.environ(), **environ}.items():
            patch.setenv(name, value)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        for name, stream in streams.items():
            patch.setattr(sys, name, stream)
        code = main(args)
    for stream in streams.values():
        stream.flush()
    out, err = (stream.buffer.getvalue().decode() for stream in streams.values())  # type: ignore[attr-defined]
    scene.settle_times()
    return Ended(code, out, err)


@contextmanager
def frozen_time(scene: Scene) -> Iterator[None]:
    """Commands take time and ids from the scene's clock.

    Patched because the program is started without one; how long something takes is measured as ever.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemClock, "now", lambda _: scene.clock.now())
        patch.setattr(SystemClock, "new_id", lambda _: scene.clock.new_id())
        patch.setattr(SystemClock, "chance", lambda _: scene.clock.chance())
        yield
