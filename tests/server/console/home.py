"""A home with memories, links, proposals, a dream, agents' mail, and a session in which every layer acted."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from datetime import UTC, timedelta
from pathlib import Path

from nacre.agents.team_roster import Roster, TeamMember
from nacre.app.memory_locations import memory_place
from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.clock import SYSTEM_CLOCK
from nacre.layers.l4_compact.layer import CompactionRequest
from nacre.layers.l7_mail.letter import Letter
from nacre.layers.l7_mail.mailbox import Mailbox
from nacre.memory.checks.review import Proposal, propose
from nacre.memory.format.entry import Author, MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.messages.records import Said
from nacre.messages.usage import Usage
from nacre.session.read_session import stream
from nacre.settings import Settings, load
from nacre.store.sessions import Sessions
from nacre.testing import FrozenClock, ScriptedProvider, call, say, together

MODEL = "claude-sonnet-5-5"
DAY = 86_400.0
PARSER = """from datetime import datetime


def parse(seconds):
    return datetime.fromtimestamp(seconds)
"""
MEMORIES = json.loads((Path(__file__).parent / "memories.json").read_text(encoding="utf-8"))


def demo_environment(folder: Path) -> Mapping[str, str]:
    """Return an environment in which nothing is asked and nothing is sent."""
    return {
        "HOME": str(folder),
        "NACRE_HOME": str(folder / "home"),
        "PATH": "/usr/bin:/bin",
        "NACRE_PERMISSIONS_DEFAULT_MODE": "bypassPermissions",
        "NACRE_NOTES": "false",
        "NACRE_RECALL_SELECTOR": "false",
        "NACRE_EXTRACT": "false",
        "NACRE_DREAM": "false",
        "NACRE_BACKGROUND_IDLE_SECONDS": "0",
        "NACRE_MODEL": MODEL,
        "ANTHROPIC_API_KEY": "none",
    }


def demo_settings(folder: Path) -> Settings:
    """Return the settings of a project in a folder."""
    project = folder / "billing"
    (project / "src").mkdir(parents=True, exist_ok=True)
    (project / "deploy").mkdir(exist_ok=True)
    (project / "src" / "clock.py").write_text(PARSER, encoding="utf-8")
    (project / "deploy" / "billing.sh").write_text("#!/bin/sh\necho deploy\n", encoding="utf-8")
    (project / ".nacre").mkdir(exist_ok=True)
    (project / ".nacre" / "settings.json").write_text('{"microcompact": {"keep": 4}}\n', encoding="utf-8")
    return load(project, demo_environment(folder))


async def fill(settings: Settings) -> FrozenClock:
    """Write memories, sessions, proposals and mail."""
    # The plots are about the last days.
    clock = FrozenClock(SYSTEM_CLOCK.now().astimezone(UTC) - timedelta(days=19))
    memory = await Memory.at(memory_place(settings, "project"), settings.cwd, clock=clock)
    for n, one in enumerate(MEMORIES):
        clock.advance(DAY * 1.6)
        is_users = bool(n % 4)
        draft = MemoryDraft(
            body=one["text"], name=one["name"], kind=one["type"], origin="user" if is_users else "agent"
        )
        author: Author = "user" if is_users else "extract"
        await memory.save(draft, MemoryChange(author=author, reason=f"remember {one['name'].lower()}"))
    draft = MemoryDraft(
        body="The vendor's page says that invoices may be sent twice.", name="Vendor page",
        kind="reference", origin="unverified",
    )  # fmt: skip
    await memory.save(draft, MemoryChange(author="agent", reason="read a page of the vendor"))
    await memory.correct("Dashboards", "it is billing-eu-west, not billing-eu")
    await _work(settings, clock)
    await _extracted(memory, settings)
    await _consolidated(memory, clock)
    _mail(settings, clock)
    return clock


def usage(before: int, now: int, *, output: int = 180) -> Usage:
    return Usage(cache_read=before, cache_write=now - before, input=6, output=output)


async def _work(settings: Settings, clock: FrozenClock) -> None:
    """A session with recall, a large result, a pause that clears old ones, a compaction, and a correction."""
    source = str(settings.cwd / "src" / "clock.py")
    steps = [
        together(say("Let me look."), call("Read", file_path=source), usage=usage(0, 9_200)),
        together(call("Bash", command="seq 1 30000"), usage=usage(9_200, 10_100)),
        *(
            together(
                call("Bash", command=f"seq {n} {n + 900}"), usage=usage(10_100 + n * 900, 11_000 + n * 900)
            )
            for n in range(7)
        ),
        together(
            say("`parse` drops the time zone: `fromtimestamp` returns a naive datetime. Shall I change it?"),
            usage=usage(16_400, 17_500),
        ),
        together(
            call(
                "Edit",
                file_path=source,
                old_string="fromtimestamp(seconds)",
                new_string="fromtimestamp(seconds, tz=UTC)",
            ),
            usage=usage(0, 12_800),
        ),
        together(say("Done: `parse` returns aware datetimes in UTC."), usage=usage(12_800, 13_900)),
        together(
            say("From `deploy/billing.sh`: staging first, then two regions, an hour apart. Ida approves it."),
            usage=usage(0, 6_900),
        ),
        together(say("You are welcome."), usage=usage(6_900, 7_400)),
    ]
    provider = ScriptedProvider().script(*steps)
    async with open_agent(settings, provider=provider, clock=clock) as ready:
        await _said(ready, clock, "The invoices of May have wrong times. Look at parse in src/clock.py.")
        clock.advance(2 * 3_600)
        await _said(ready, clock, "yes, change it")
        await ready.compact.compact(CompactionRequest(by_rule=True))
        clock.advance(60)
        await _said(ready, clock, "How do we deploy billing, and who approves it?")
        clock.advance(30)
        await _said(ready, clock, "thanks")


async def _said(ready: OpenedAgent, clock: FrozenClock, text: str) -> None:
    async for _ in ready.agent.stream(text):
        clock.advance(7)


async def _extracted(memory: Memory, settings: Settings) -> None:
    """A memory that knows the message it came from."""
    path = Sessions(settings.home).list(settings.cwd)[0].path
    said = next(one for one in stream(path) if isinstance(one, Said) and not one.meta and one.role == "user")
    draft = MemoryDraft(
        body="The invoices of May have wrong times; the cause is `parse` in `src/clock.py`.",
        name="Invoices of May", kind="project", origin="agent", sources=(f"{path.stem}#{said.id}",),
    )  # fmt: skip
    await memory.save(draft, MemoryChange(author="extract", reason="from the session", session=path.stem))


async def _consolidated(memory: Memory, clock: FrozenClock) -> None:
    """What a dream has done, and what it proposes."""
    clock.advance(DAY)
    database = (memory.location.directory / "project_database.md").read_bytes()
    changed = database.replace(b"16 on laptops", b"16 on laptops (since 2026-01)")
    await memory.put(
        "project_database.md", changed, MemoryChange(author="dream", reason="consolidated: 1 changed")
    )
    zones = (memory.location.directory / "project_time_zones.md").read_bytes()
    proposal = Proposal(
        file="project_time_zones.md", before=zones, author="dream",
        reason="`tests/test_clock.py` does not exist",
        after=zones.replace(b" Its tests are in `tests/test_clock.py`.", b""),
    )  # fmt: skip
    propose(memory.location, proposal, clock=clock)


def _mail(settings: Settings, clock: FrozenClock) -> None:
    roster = Roster(settings.home, "invoices", clock=clock)

    def member(name: str) -> TeamMember:
        return TeamMember(
            name=name, type="general-purpose", cwd=str(settings.cwd), joined=clock.now(),
            pid=1, host="elsewhere",
        )  # fmt: skip

    roster.create(member("lead"))
    roster.join(member("tests"))
    box = Mailbox(roster.inbox_path("tests"))
    for n, text in enumerate(
        ("Please write a test for a header with a time zone.", "Use the header of 3 May.")
    ):
        letter = Letter(id=f"l{n}", sender="lead", to="tests", text=text, at=clock.now())
        box.put(letter)


def main() -> None:
    """Fill the folder in DEMO."""
    folder = Path(os.environ["DEMO"])
    asyncio.run(fill(demo_settings(folder)))


if __name__ == "__main__":
    main()
