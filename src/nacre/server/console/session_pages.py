"""Pages about sessions: the list, the timeline of requests, and what the model saw at each (W2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from nacre.server.console.page import Page

PER_PAGE = 50
BLOCKS = 60
"""Blocks on a page, the newest first to be seen."""
MAX_TEXT_CHARS = 1_200
MAX_WHOLE_CHARS = 100_000
EVENT_WORDS = {
    "offloaded": "offloaded", "cleared": "cleared", "compacted": "compacted", "attached": "attached",
    "restored": "restored", "undone": "undone", "background": "in the background",
}  # fmt: skip
MARK_HELP = {
    "offloaded": "A large result went to disk; a short pointer stands in for it.",
    "cleared": "An old result was replaced by a pointer to its file.",
    "compacted": "A summary replaces the messages before it.",
    "attached": "Text that nacre added to the message: memories, instructions, the date.",
    "restored": "Brought back from disk after a compaction.",
}
KIND_WORDS = {
    "user_text": "you", "assistant_text": "reply", "tool_calls": "call", "tool_results": "result",
    "thinking": "thinking", "surroundings": "date and place",
}  # fmt: skip
REASONS = {
    "compact": "a compaction replaced what was before", "clear": "old results were cleared",
    "offload": "a result was offloaded", "undo": "messages were taken back", "model": "another model answered",
    "thinking": "thinking was dropped",
}  # fmt: skip


async def sessions(page: Page) -> Response:
    """List sessions."""
    cursor = page.query.get("cursor") or None
    found = await page.call("listSessions", limit=PER_PAGE, cursor=cursor)
    query = page.query.get("q", "").strip()[:200]
    hits = None
    if query:
        hits = (await page.call("searchSessions", body={"query": query, "limit": 50}))["hits"]
    return await page.html(
        "sessions.html", sessions=found["sessions"], next=found["next"], query=query, hits=hits
    )


async def session(page: Page) -> Response:
    """Show the timeline of a session."""
    id_ = page.request.path_params["id"]
    found = await page.call("listRequests", path={"id": id_})
    return await page.html(
        "session.html", session=found["session"], requests=found["requests"],
        totals=_totals(found["requests"]), highest=_highest(found["requests"]), words=EVENT_WORDS,
    )  # fmt: skip


def _highest(requests: Sequence[dict[str, Any]]) -> int:
    return max((one["tokens"] for one in requests), default=0) or 1


def _totals(requests: Sequence[dict[str, Any]]) -> dict[str, Any]:
    known = [one["cost_usd"] for one in requests if one["cost_usd"] is not None]
    prompts = [one["usage"] for one in requests if one["usage"]]
    whole = sum(one["input"] + one["cache_read"] + one["cache_write"] for one in prompts)
    return {
        "cost": sum(known) if known else None,
        "read": sum(one["cache_read"] for one in prompts) / whole if whole else None,
        "output": sum(one["output"] for one in prompts),
        "events": sum(len(one["events"]) for one in requests),
        "models": list(dict.fromkeys(one["model"] for one in requests if one["model"])),
    }


async def request(page: Page) -> Response:
    """Show what the model saw at one request."""
    params = page.request.path_params
    path = {"id": params["id"], "n": params["n"]}
    first = page.query.get("from", "")
    start = int(first) if first.isascii() and first.isdigit() and 0 < int(first[:7]) else 0
    found = await page.call("listBlocks", path=path, **{"from": max(1, start), "limit": BLOCKS})
    if not start and found["total"] > BLOCKS:  # the end is what is new
        start = max(1, found["total"] - BLOCKS + 1)
        found = await page.call("listBlocks", path=path, **{"from": start, "limit": BLOCKS})
    whole = page.query.get("whole", "")
    blocks = [
        _shown(one, n, is_whole=whole == str(n)) for n, one in enumerate(found["blocks"], found["from"])
    ]
    cut = next(
        (n for n, one in enumerate(blocks) if one["place"] == found["changed_at"] and one["state"] != "same"),
        None,
    )
    return await page.html(
        "request.html", found=found, blocks=blocks, reply=[_shown({"block": one, "role": "assistant", "kind": "", "tokens": 0, "mark": None, "state": "same", "place": 0}, 0, is_whole=False) for one in found["reply"]],
        words=EVENT_WORDS, help=MARK_HELP, kinds=KIND_WORDS, reasons=[REASONS.get(one, one) for one in found["reason"].split(", ") if one],
        jumps=_jumps(found["marked"]), cut=cut, per_page=BLOCKS, last=found["from"] + len(blocks) - 1,
    )  # fmt: skip


def _jumps(marked: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the marked blocks to jump to, each kind once with its number and tokens."""
    found: dict[str, dict[str, Any]] = {}
    for one in marked:
        name = one["mark"] or ("new" if one["state"] == "added" else one["state"])
        jump = found.setdefault(name, {"name": name, "place": one["place"], "count": 0, "tokens": 0})
        jump["count"] += 1
        jump["tokens"] += one["tokens"]
    return list(found.values())


def _shown(one: dict[str, Any], number: int, *, is_whole: bool) -> dict[str, Any]:
    """Return a block with a title and its text as a page shows it."""
    block = one["block"]
    title, text = _title_and_text(block)
    most = MAX_WHOLE_CHARS if is_whole else MAX_TEXT_CHARS
    return {
        **one, "number": number, "title": title, "text": text[:most], "is_cut": len(text) > most,
        "is_error": block.get("is_error") is True, "chars": len(text), "type": block.get("type", ""),
    }  # fmt: skip


def _title_and_text(block: dict[str, Any]) -> tuple[str, str]:
    match block.get("type"):
        case "text":
            return "", str(block.get("text", ""))
        case "thinking":
            return "", str(block.get("thinking", ""))
        case "tool_use":
            given = block.get("input")
            given = given if isinstance(given, dict) else {"input": given}
            return str(block.get("name", "")), "\n".join(f"{name}: {value}" for name, value in given.items())
        case "tool_result":
            content = block.get("content")
            parts = content if isinstance(content, list) else [content]
            return "", "\n".join(_part(one) for one in parts)
        case kind:
            return str(kind), ""


def _part(part: Any) -> str:
    if isinstance(part, dict):
        return str(part["text"]) if "text" in part else f"[{part.get('type', 'content')}]"
    return str(part or "")


ROUTES = (
    ("GET", "/sessions", sessions),
    ("GET", "/sessions/{id}", session),
    ("GET", "/sessions/{id}/{n}", request),
)
