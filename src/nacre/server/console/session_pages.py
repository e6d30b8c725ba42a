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
MAX_SAME_CHARS = 400
"""Of a block that the request before had, too."""
MAX_WHOLE_CHARS = 100_000
MAX_DIGITS = 7
REPLY: dict[str, Any] = {
    "role": "assistant", "kind": "", "tokens": 0, "mark": None, "state": "added", "place": 0,
}  # fmt: skip
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
    "opening": "opening: instructions, memory, place",
}  # fmt: skip
REASONS = {
    "compact": "a compaction replaced what was before", "clear": "old results were cleared",
    "offload": "a result was offloaded", "undo": "messages were taken back",
    "model": "another model answered",
    "thinking": "thinking was dropped",
}  # fmt: skip
CAUSES = {
    "compact": "compaction", "clear": "results cleared", "offload": "result offloaded",
    "undo": "messages taken back", "model": "another model", "thinking": "thinking dropped",
}  # fmt: skip
"""The reasons in few words, for the timeline."""


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
        "session.html", session=found["session"], title=found["title"], requests=found["requests"],
        totals=_totals(found["requests"]), highest=_highest(found["requests"]), words=EVENT_WORDS,
        causes=CAUSES,
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
    start = _whole_number(page.query.get("from", ""))
    part: dict[str, Any] = {"from": max(1, start), "limit": BLOCKS}
    found = await page.call("listBlocks", path=path, **part)
    if not start and found["total"] > BLOCKS:  # the end is what is new
        found = await page.call("listBlocks", path=path, **part | {"from": found["total"] - BLOCKS + 1})
    whole = _whole_number(page.query.get("whole", ""))
    blocks = [_shown(one, n, is_whole=whole == n) for n, one in enumerate(found["blocks"], found["from"])]
    reply = [_shown({**REPLY, "block": one}, 0, is_whole=True) for one in found["reply"]]
    cut = None
    if found["changed_at"] is not None:
        cut = next((n for n, one in enumerate(blocks) if _is_at_cut(one, found["changed_at"])), None)
    return await page.html(
        "request.html",
        found=found,
        groups=_groups(blocks, cut),
        is_cut_shown=cut is not None,
        reply=reply,
        words=EVENT_WORDS,
        help=MARK_HELP,
        kinds=KIND_WORDS,
        reasons=[REASONS.get(one, one) for one in found["reason"].split(", ") if one],
        jumps=_jumps(found["marked"]),
        per_page=BLOCKS,
        last=found["from"] + len(blocks) - 1,
    )


def _whole_number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else 0


def _is_at_cut(one: dict[str, Any], changed_at: int) -> bool:
    """Whether the cache ends ahead of a block: the first that is not as in the request before."""
    return bool(one["state"] != "same" and one["place"] >= changed_at)


def _groups(blocks: Sequence[dict[str, Any]], cut: int | None) -> list[dict[str, Any]]:
    """Return blocks one by one, but those that are no longer sent in runs that a page folds."""
    found: list[dict[str, Any]] = []
    for n, one in enumerate(blocks):
        is_gone = one["state"] == "removed"
        if is_gone and found and found[-1]["is_gone"] and n != cut:
            found[-1]["blocks"].append(one)
        else:
            found.append({"is_gone": is_gone, "blocks": [one], "is_cut": n == cut})
    return found


def _jumps(marked: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the marked blocks to jump to, each kind once with its number and tokens."""
    found: dict[str, dict[str, Any]] = {}
    for one in marked:
        name = "removed" if one["state"] == "removed" else one["mark"] or "new"
        jump = found.setdefault(name, {"name": name, "place": one["place"], "count": 0, "tokens": 0})
        jump["count"] += 1
        jump["tokens"] += one["tokens"]
    return list(found.values())


def _shown(one: dict[str, Any], number: int, *, is_whole: bool) -> dict[str, Any]:
    """Return a block with a title and its text as a page shows it."""
    block = one["block"]
    title, text = _title_and_text(block)
    most = MAX_WHOLE_CHARS if is_whole else MAX_SAME_CHARS if one["state"] == "same" else MAX_TEXT_CHARS
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
