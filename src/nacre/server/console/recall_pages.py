"""The recall explorer: a question, the memories it would get, and why the others are left out (W2)."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from nacre.server.console.memory_pages import MAX_QUERY_CHARS, visible_entries
from nacre.server.console.page import Page
from nacre.server.console.reasons import reasons

SHOWN = 30


async def recall(page: Page) -> Response:
    """Show what a message would get."""
    query = page.query.get("q", "").strip()[:MAX_QUERY_CHARS]
    found = await page.call("recall", body={"query": query}) if query else None
    entries = {one.file: one for one in await visible_entries(page)}
    ranked = [one for one in found["ranked"] if one["file"] in entries][:SHOWN] if found else []
    values: dict[str, Any] = {
        "query": query, "found": found, "entries": entries, "ranked": ranked, "reasons": reasons,
        "rest": max(0, len(found["ranked"]) - len(ranked)) if found else 0,
    }  # fmt: skip
    template = "recall_result.html" if page.request.headers.get("x-part") else "recall.html"
    return await page.html(template, **values)


ROUTES = (("GET", "/recall", recall),)
