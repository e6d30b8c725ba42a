"""Recorded sessions replayed by nacre's layers send the same bytes; only hashes of them are kept here."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nacre.devtools.replay.policies import NACRE, NACRE_MODEL, Driven, Ladder
from nacre.devtools.replay.recorded import read_recorded
from nacre.devtools.replay.run import ReplayTerms, Study, replay_one
from nacre.devtools.replay.schema import PolicyAnswer, Recorded, ReplayStep, Setting, SideRequest, WireRequest
from nacre.inspect.sources import files_in
from nacre.messages.blocks import JsonObject
from nacre.messages.usage import Usage
from nacre.messages.wire import canonical
from tests.frozen.golden import check

DATA = Path(__file__).parents[3] / "shared" / "data"
SOURCES = (
    "claude_code_sessions/sessions",
    "claude_code_sessions/raw",
    "swe_agent_trajs",
    "openhands_style_trajs",
)
WAYS = {
    "200K": (NACRE, ReplayTerms(model="claude-opus-5-5", window=200_000)),
    "60K": (NACRE, ReplayTerms(model="claude-opus-5-5", window=60_000)),
    "60K, a model sums up": (NACRE_MODEL, ReplayTerms(model="claude-sonnet-4-6", window=60_000)),
}
"""By name: how a recording is replayed."""

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.is_dir(), reason="no folder shared/data beside the repository"),
]


class Digesting:
    """A policy and its maker in one: hashes every request, and everything asked beside it, on its way."""

    def __init__(self, ladder: Ladder) -> None:
        self.name = ladder.name
        self._ladder = ladder
        self._sha = hashlib.sha256()
        self._known: dict[int, tuple[JsonObject, bytes]] = {}

    @property
    def digest(self) -> str:
        return self._sha.hexdigest()[:32]

    def prepare(self, session: Recorded) -> Recorded:
        return self._ladder.prepare(session)

    def start(self, setting: Setting) -> Digesting:
        driven = self._ladder.start(setting)
        assert isinstance(driven, Driven)
        self._driven = driven
        return self

    def ask(self, step: ReplayStep) -> PolicyAnswer:
        asked = self._driven.ask(step)
        for side in asked.sides:
            self._side(side)
        self._take(asked.sent)
        return asked

    def hear(self, step: ReplayStep, usage: Usage) -> None:
        self._driven.hear(step, usage)

    def close(self) -> tuple[SideRequest, ...]:
        sides = self._driven.close()
        for side in sides:
            self._side(side)
        return sides

    def _side(self, side: SideRequest) -> None:
        self._sha.update(f"{side.kind} {side.output_tokens}".encode())
        self._take(side.sent)

    def _take(self, sent: WireRequest) -> None:
        self._sha.update(sent.at.isoformat().encode())
        for part in (sent.system, sent.tools, sent.messages):
            self._sha.update(f"{len(part)}".encode())
            for one in part:
                self._sha.update(self._digest(one))

    def _digest(self, one: JsonObject) -> bytes:
        """Of one message; most are the very objects of the request before, so that each is hashed once."""
        known = self._known.get(id(one))
        if known is None:
            text = canonical(one).decode(errors="surrogatepass").replace(str(self._driven.folder), "/FOLDER")
            known = (one, hashlib.sha256(text.encode(errors="surrogatepass")).digest())
            self._known[id(one)] = known
        return known[1]


def digests(recorded: Recorded) -> dict[str, str]:
    study = Study(recorded)
    found: dict[str, str] = {}
    for way, (ladder, terms) in WAYS.items():
        digesting = Digesting(ladder)
        replay_one(study, digesting, terms)
        found[way] = digesting.digest
    return found


@pytest.mark.slow
@pytest.mark.parametrize("first", "0123456789abcdef")
def test_a_recorded_session_is_replayed_with_the_same_requests(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the first digit of the hash of a file's name, so that several workers share the work."""
    # What is kept of long results is pointed to by its path, whose length counts.
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    lines: list[str] = []
    for name, path in recordings():
        if name.startswith(first):
            for number, recorded in enumerate(read_recorded(path)):
                found = digests(recorded)
                lines += [f"{name}.{number} {way}: {digest}" for way, digest in found.items()]
    check(f"recorded_sessions/{first}.txt", "\n".join(lines) + "\n")


def recordings() -> Iterator[tuple[str, Path]]:
    """Every recorded session, by the hash of its name, in that order."""
    paths = [path for source in SOURCES for path in files_in(DATA / source)]
    names = ((hashlib.sha256(str(path.relative_to(DATA)).encode()).hexdigest()[:16], path) for path in paths)
    return iter(sorted(names))
