"""Extracts memories from a conversation that is no session of this process."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from nacre.errors import ConfigError, TranscriptError, VersionConflict
from nacre.layers.l5_extract.by_rule import stated_facts
from nacre.layers.l5_extract.extract import (
    SavedMemories,
    changes_by_rule,
    memory_manifest,
    nothing_hidden,
    save_changes,
)
from nacre.layers.l5_extract.judge import Judge, NewMessages
from nacre.memory.files.location import Location
from nacre.memory.memory import Memory
from nacre.memory.tools import BY_AGENT, OriginJudge
from nacre.messages.blocks import JsonObject
from nacre.messages.jsonl_encode import Envelope
from nacre.messages.records import Record
from nacre.providers.choose import choose
from nacre.providers.servers import OPENAI, SERVERS
from nacre.session.log_writer import SessionLogWriter
from nacre.session.meter import Meter
from nacre.settings import Settings, load
from nacre.store.session_log import SessionLog

BASE_URLS = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL")
TRIES = 5
"""Attempts to save while other processes write."""


def conversation(messages: Sequence[JsonObject]) -> list[Record]:
    """Return messages as sent to a provider's API as records; raises `TranscriptError` for others."""
    from nacre.messages.foreign import read_foreign  # noqa: PLC0415 - only for other programs' conversations

    found = read_foreign(json.dumps(messages).encode(), name="messages")
    records = [one for session in found for one in session.records]
    if not records:
        raise TranscriptError("messages are objects with role and content, as sent to Anthropic or OpenAI")
    return records


async def extract_by_rule(
    memory: Memory,
    heard: NewMessages,
    *,
    session: str,
    settings: Settings,
    job: str = "",
    origins: OriginJudge = BY_AGENT,
) -> SavedMemories:
    """Save what the new messages of a conversation state; what is known is not saved again.

    The memories name the session, the commit the job, if there is one.
    """
    _, names = await memory_manifest([memory], nothing_hidden)
    now = memory.clock.now()
    zone = now.astimezone().tzinfo
    assert zone is not None, "a local time has a zone"
    judge = Judge(
        messages=heard,
        session=session,
        now=now,
        zone=zone,
        origins=origins,
        names=names,
        grounds=settings.switches.grounding,
    )
    found = await asyncio.to_thread(stated_facts, heard.quotes, zone=zone)

    async def saved() -> SavedMemories:
        new = await changes_by_rule(memory, found, judge, session=session)
        return await save_changes(
            new.changes, removed=new.removed, mode=settings.extract.mode, session=job or session
        )

    for _ in range(TRIES - 1):
        # Another process wrote on the same subject meanwhile: read that first.
        with suppress(VersionConflict):
            return await saved()
    return await saved()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelForJob:
    """The model that a job may use."""

    name: str
    credential: str
    """`env:NAME` or `file:/path`."""
    left_usd: float
    """What it may cost."""
    on_cost: Callable[[Meter], Awaitable[None]]
    """Called with what it has cost, also if the job fails."""


async def extract_with_model(
    records: Sequence[Record], place: Location, model: ModelForJob, *, job: str, folder: Path
) -> SavedMemories:
    """Extract as a session does at its end, in an empty home below a folder.

    The settings of this machine's person and their keys are not used.
    """
    from nacre.app.open_agent import open_agent  # noqa: PLC0415 - opens far more than rules need

    work, home = folder / "work", folder / "home"
    work.mkdir()
    environ = {name: os.environ[name] for name in BASE_URLS if name in os.environ}
    environ |= {"HOME": str(home), "NACRE_HOME": str(home)}
    environ |= _key_of(model.name, environ, await asyncio.to_thread(read_credential, model.credential))
    settings = load(work, environ, cli={"model": model.name})
    settings = replace(
        settings,
        memory=replace(settings.memory, location=place),
        spend=replace(settings.spend, session_usd=model.left_usd),
        extract=replace(settings.extract, non_interactive=True),
    )
    log = SessionLog.create(settings.home, work, session=job)
    writer = SessionLogWriter(log, Envelope(session_id=job, cwd=str(work)))
    await writer.write(records)
    await writer.close()
    async with open_agent(settings, session=job) as ready:
        if ready.extract is None:
            raise ConfigError(f"the model {model.name} cannot extract memories")
        try:
            return await ready.extract.run_now()
        finally:
            await model.on_cost(ready.agent.session.meter)


def _key_of(model: str, environ: Mapping[str, str], key: str) -> dict[str, str]:
    """Return the variable in which the model's provider expects its key."""
    names = {"ANTHROPIC_API_KEY", *OPENAI.key_variables}
    names |= {name for server in SERVERS.values() for name in server.key_variables}
    choice = choose(model, {**environ, **dict.fromkeys(names, key)})
    if choice.provider_name == "embedded":
        return {}
    server = SERVERS.get(choice.server or "", OPENAI)
    return {"ANTHROPIC_API_KEY" if choice.provider_name == "anthropic" else server.key_variables[0]: key}


def read_credential(reference: str) -> str:
    """Return the key that `env:NAME` or `file:/path` names; raises `ConfigError` without showing it."""
    kind, _, place = reference.partition(":")
    found = ""
    if kind == "env":
        found = os.environ.get(place, "")
    elif kind == "file":
        with suppress(OSError, UnicodeDecodeError):
            found = Path(place).read_text(encoding="utf-8").strip()
    if not found:
        raise ConfigError(f"the credential {reference} cannot be read here; set it where workers run")
    return found
