"""A session in which layers act, and what `nacre context` says about it afterwards (C34)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.cli.main import main
from nacre.messages.blocks import JsonObject
from nacre.messages.usage import Usage
from nacre.settings import Settings, load
from nacre.store import lease
from nacre.store.sessions import Sessions
from nacre.testing import FrozenClock, ScriptedProvider, call, together
from tests.stories.scenes import environment
from tests.stories.scenes import say as tell

MODEL = "claude-sonnet-4-6"
ROUNDS = 26
"""More results than stay when old ones are cleared."""
HOUR = 3_600.0


def usage(n: int, *, is_cold: bool = False) -> Usage:
    before, now = 5_000 + 1_000 * n, 6_000 + 1_000 * n
    read = 0 if is_cold else before
    return Usage(cache_read=read, cache_write=now - read, output=20)


def everything_below(folder: Path) -> list[tuple[str, int, int]]:
    return sorted((str(one), one.lstat().st_mtime_ns, one.lstat().st_size) for one in folder.rglob("*"))


async def lived(settings: Settings, clock: FrozenClock) -> None:
    """A turn with one large result and many small ones, a long pause, one more request."""
    provider = ScriptedProvider()
    rounds = [call("Bash", command=f"seq {n} {n + 800}") for n in range(ROUNDS)]
    provider.script(
        together(call("Bash", command="seq 9000"), usage=usage(0)),
        *(together(one, usage=usage(n + 1)) for n, one in enumerate(rounds)),
        together("done", usage=usage(ROUNDS + 1)),
        together("welcome back", usage=usage(ROUNDS, is_cold=True)),
    )
    async with open_agent(settings, provider=provider, clock=clock) as ready:
        await tell(ready.agent, "count")
        clock.advance(2 * HOUR)
        await tell(ready.agent, "and again")


@pytest.mark.moves_prefix(reason="old results are cleared after a pause")
def test_results_that_were_offloaded_and_cleared_are_told_with_what_that_saved(
    tmp_path: Path, clock: FrozenClock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {**environment(tmp_path), "NACRE_MODEL": MODEL, "ANTHROPIC_API_KEY": "k"}
    asyncio.run(lived(load(tmp_path, environ), clock))
    found = shown(tmp_path, environ, capsys, monkeypatch)
    parts, away, layers = found["parts"], found["out_of_view"], found["layers"]
    assert isinstance(parts, dict) and isinstance(away, dict) and isinstance(layers, dict)
    assert parts["cleared"] and parts["tool_results"] and away["cleared"]
    offload, clear = layers["offload"], layers["microcompact"]
    assert isinstance(offload, dict) and isinstance(clear, dict)
    assert (offload["times"], clear["times"], clear["spent_usd"]) == (1, 1, 0.0)
    # One request after the pause: all that was cleared would have been written again.
    assert clear["saved_usd"] == pytest.approx(int(str(clear["tokens"])) * 3.75 / 1e6, rel=1e-3)
    whole = int(str(offload["tokens"])) * (2 * 3.75 + ROUNDS * 0.3) / 1e6
    assert offload["saved_usd"] == pytest.approx(whole, rel=1e-3)


def shown(
    folder: Path,
    environ: Mapping[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> JsonObject:
    """What the command prints, of a session that another process holds; nothing may change by it (C32)."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    home = folder / "home"
    path = Sessions(home).latest(folder)
    assert path is not None
    held = lease.take(home, path)
    before = everything_below(folder)
    try:
        assert main(["context", "--json"]) == 0
        assert everything_below(folder) == before
    finally:
        held.release()
    document: JsonObject = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.moves_prefix(reason="old results are cleared after a pause")
async def test_a_file_whose_text_was_cleared_must_be_read_before_it_is_edited(
    tmp_path: Path, clock: FrozenClock
) -> None:
    """C9: an edit never works from the memory of a text; a newer result with the lines is enough."""
    (tmp_path / "old.txt").write_text("".join(f"row {n} of the old file\n" for n in range(400)))
    (tmp_path / "new.txt").write_text("".join(f"row {n} of the new file\n" for n in range(400)))
    edits = [
        call(
            "Edit",
            file_path=f"{name}.txt",
            old_string=f"row 7 of the {name}",
            new_string=f"row 7 of a {name}",
        )
        for name in ("old", "new")
    ]
    rounds = [
        *(call("Read", file_path=f"{name}.txt") for name in ("old", "new")),
        *(call("Bash", command=f"seq {n} {n + 800}") for n in range(ROUNDS)),
        call("Read", file_path="new.txt", offset=1, limit=20),
    ]
    provider = ScriptedProvider()
    provider.script(
        *(together(one, usage=usage(n)) for n, one in enumerate(rounds)),
        together("done", usage=usage(len(rounds))),
        together(*edits, usage=usage(len(rounds), is_cold=True)),
        together("done", usage=usage(len(rounds))),
    )
    environ = {**environment(tmp_path), "NACRE_MODEL": MODEL, "ANTHROPIC_API_KEY": "k"}
    async with open_agent(load(tmp_path, environ), provider=provider, clock=clock, ephemeral=True) as ready:
        await tell(ready.agent, "look around")
        clock.advance(2 * HOUR)
        await tell(ready.agent, "change row 7 in both")
    said = str(provider.requests[-1].messages[-1])
    assert "Read old.txt before changing it" in said
    assert "Edited new.txt: 1 place" in said
