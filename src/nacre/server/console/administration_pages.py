"""Pages about agents and mail, dreams, settings and the audit log (W2)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, is_dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.responses import Response

from nacre.agents.directory import list_teams
from nacre.agents.team_roster import Roster
from nacre.errors import MailError
from nacre.layers.l6_dream.state import DreamStateFile
from nacre.layers.l7_mail.mailbox import peek
from nacre.memory.checks.review import ACCEPTED
from nacre.memory.format.index import INDEX_FILE
from nacre.memory.secrets import redact
from nacre.messages.blocks import JsonObject
from nacre.server.console.page import Page
from nacre.server.operation import ProblemError
from nacre.settings.schema import KEYS

SHOWN_LETTERS = 30
SHOWN_DREAMS = 20
MAX_VALUE_CHARS = 200
HIDDEN = frozenset({"hooks", "commands", "mcpServers", "models"})
"""Tables that may hold credentials: only their size is shown."""


async def agents(page: Page) -> Response:
    """Show agents, teams and their mail."""
    found = await page.call("listAgents")
    letters = await asyncio.to_thread(_letters, page) if page.parts.has_home else []
    # Teams are on one machine; in a database, letters go to sessions.
    return await page.html(
        "agents.html",
        agents=found["agents"],
        teams=found["teams"],
        letters=letters,
        has_teams=page.parts.has_home,
    )


def _letters(page: Page) -> list[dict[str, Any]]:
    """Return the newest letters between the members of teams."""
    clean = str if page.key.local else redact
    home = page.parts.settings.home
    found: dict[str, dict[str, Any]] = {}
    for team in list_teams(home):
        roster = Roster(home, team.name)
        for one in team.members:
            try:
                box = peek(roster.inbox_path(one.member.name))
            except MailError:
                continue
            for letter, is_read in [*((x, True) for x in box.received), *((x, False) for x in box.waiting)]:
                found[letter.id] = {
                    "team": team.name, "from": letter.sender, "to": letter.to, "at": letter.at,
                    "text": clean(letter.text), "kind": letter.kind, "is_read": is_read,
                }  # fmt: skip
    return sorted(found.values(), key=lambda one: one["at"], reverse=True)[:SHOWN_LETTERS]


async def send(page: Page) -> Response:
    """Write to an agent or a team."""
    body = {name: page.form.get(name, "") for name in ("to", "text", "team")}
    await page.call("sendMail", body=body)
    return page.redirect("/agents", done="sent")


async def dreams(page: Page) -> Response:
    """Show the running dream, the reports of the last ones, and what they propose."""
    location = await page.location()
    state = await asyncio.to_thread(DreamStateFile(location.cache).read)
    listed = await page.call("listCommits", limit=500)
    proposals = (await page.call("listProposals"))["proposals"]
    commits = [one for one in listed["commits"] if one["author"] == "dream" and not _is_accepted(one)]
    undone = {one["reason"] for one in listed["commits"]}
    reports = []
    for one in commits[:SHOWN_DREAMS]:
        shown = await page.call("getCommit", path={"commit": one["commit"]})
        is_undone = any(one["commit"][:10] in reason for reason in undone)
        changes = sorted(shown["files"], key=lambda file: (file["file"].endswith(INDEX_FILE), file["file"]))
        reports.append({**one, "changes": changes, "is_undone": is_undone})
    jobs = (await page.call("listJobs"))["jobs"] if page.may("listJobs") else []
    return await page.html(
        "dreams.html",
        state=state.as_json(),
        reports=reports,
        proposals=[one for one in proposals if one["author"] == "dream"],
        jobs=[one for one in jobs if one["kind"] == "dream" and one["space"] == page.space_name][:5],
    )


def _is_accepted(commit: JsonObject) -> bool:
    """Whether a person accepted this proposal of a dream, so that it is no part of a report."""
    return str(commit["reason"]).endswith(ACCEPTED)


async def start_dream(page: Page) -> Response:
    await page.call("startJob", body={"kind": "dream"})
    return page.redirect("/dreams", done="started")


async def settings(page: Page) -> Response:
    """Show every setting with its value and where that came from; with a database those of the tenant."""
    if not page.key.allows("admin"):
        raise ProblemError(HTTPStatus.FORBIDDEN, "this needs a key of the role admin")
    if page.parts.tenant_settings is not None:
        named = await page.parts.tenant_settings(page.key)
        shown = [
            {"name": name, "value": _value(name, value), "origin": "database", "is_set": value is not None}
            for name, value in named.items()
        ]
        return await page.html("settings.html", rows=shown, tenant=page.key.tenant, only_set=False)
    found = page.parts.settings
    rows = []
    for key in KEYS.values():
        value: object = found
        for name in key.path:
            value = getattr(value, name)
        origin = found.origin(key.name)
        rows.append({
            "name": key.name, "value": _value(key.name, value), "origin": origin, "variable": key.variable,
            "group": key.name.partition(".")[0] if "." in key.name else "", "is_set": origin != "default",
        })  # fmt: skip
    rows.sort(key=lambda one: (str(one["group"]), str(one["name"])))
    return await page.html(
        "settings.html", rows=rows, files=[str(one) for one in found.files], home=str(found.home),
        problems=[one.line for one in found.problems], tenant="", only_set=page.query.get("show") != "all",
    )  # fmt: skip


def _value(name: str, value: object) -> str:
    """Return a value as text; of a table that may hold credentials only its size."""
    if name.partition(".")[0] in HIDDEN:
        size = len(value) if isinstance(value, dict) else 0
        return f"{size} entries" if size else "none"
    if value is None:
        return "automatic"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (str, int, float, Path)):
        return redact(str(value))
    if isinstance(value, (tuple, list)):
        return redact(", ".join(str(getattr(one, "text", one)) for one in value))[:MAX_VALUE_CHARS] or "none"
    plain: object = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    text = json.dumps(plain, default=str, ensure_ascii=False)
    return redact(text)[:MAX_VALUE_CHARS] if text not in {"{}", "[]"} else "none"


async def audit(page: Page) -> Response:
    """Show who changed what."""
    found: JsonObject = await page.call("listAuditLog", limit=100, cursor=page.query.get("cursor") or None)
    return await page.html("audit.html", entries=found["entries"], next=found["next"])


ROUTES = (
    ("GET", "/agents", agents),
    ("POST", "/mail", send),
    ("GET", "/dreams", dreams),
    ("POST", "/dreams", start_dream),
    ("GET", "/settings", settings),
    ("GET", "/audit", audit),
)
