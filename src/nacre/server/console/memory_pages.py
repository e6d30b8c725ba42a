"""Pages about memories: list and search, one memory, edit with preview, history, review, links (W2)."""

from __future__ import annotations

import asyncio
import difflib
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from starlette.responses import HTMLResponse, Response

from nacre.errors import NacreError, StoreError, VersionConflict
from nacre.inspect.memory_json import entry_json
from nacre.memory.checks.lint import link_key, lint_file
from nacre.memory.files.folder import Folder, version_of
from nacre.memory.format.entry import KINDS, Entry, MemoryDraft, compose, kind_of, read_entry
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.memory import Memory, refuse_secrets
from nacre.memory.recall.base import Drift
from nacre.messages.blocks import JsonObject
from nacre.server.console.page import Page
from nacre.server.console.plots import circle
from nacre.server.console.reasons import reasons
from nacre.server.operation import ProblemError
from nacre.server.spaces import Space

PER_PAGE = 50
MAX_FOUND = 50
MAX_QUERY_CHARS = 2_000
MAX_CHANGES = 200
MAX_GRAPH = 60
"""Memories in the graph, those with the most links first; more cannot be told apart."""
DRIFT_SECONDS = 0.5
NEVER = datetime.min.replace(tzinfo=UTC)


async def visible_entries(page: Page) -> Sequence[Entry]:
    """Return the memories of the space that the key may see, in the order of the times on the page."""
    is_local = page.key.local

    def newest_first(entries: Sequence[Entry]) -> Sequence[Entry]:
        shown = [one for one in entries if is_local or not one.local_only]
        return sorted(shown, key=lambda one: one.changed or NEVER, reverse=True)

    return await (await page.space()).listed.derived(f"newest first, local {is_local}", newest_first)


async def memories(page: Page) -> Response:
    """List memories, or search them as recall does."""
    query = page.query.get("q", "").strip()[:MAX_QUERY_CHARS]
    kind, origin = page.query.get("type", ""), page.query.get("origin", "")
    entries = await visible_entries(page)
    counts = await (await page.space()).listed.derived(
        f"counts, local {page.key.local}",
        lambda all_: _counts([one for one in all_ if page.key.local or not one.local_only]),
    )
    rows: list[JsonObject]
    if query:
        rows = await _found(page, query)
    else:
        wanted = entries
        if kind or origin:
            wanted = [one for one in entries if _fits(one.kind or "none", kind) and _fits(one.origin, origin)]
        rows = [entry_json(one) | {"local_only": one.local_only} for one in _page_of(page, wanted)]
    if query:
        rows = [
            one
            for one in rows
            if _fits(str(one["type"] or "none"), kind) and _fits(str(one["origin"]), origin)
        ]
    total = len(rows) if query else len(wanted)
    values: dict[str, Any] = {
        "query": query, "type": kind, "origin": origin, "counts": counts, "rows": rows, "total": total,
        "all": len(entries), "number": _number(page), "pages": max(1, -(-total // PER_PAGE)), "kinds": KINDS,
    }  # fmt: skip
    template = "memory_rows.html" if page.request.headers.get("x-part") else "memories.html"
    return await page.html(template, **values)


def _counts(entries: Sequence[Entry]) -> dict[str, Counter[str]]:
    """Return how many memories there are of each type and origin."""
    return {
        "type": Counter(one.kind or "none" for one in entries),
        "origin": Counter(one.origin for one in entries),
    }


def _fits(value: str, wanted: str) -> bool:
    return not wanted or value == wanted


def _number(page: Page) -> int:
    text = page.query.get("page", "1")
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 7 else 1


def _page_of(page: Page, entries: Sequence[Entry]) -> Sequence[Entry]:
    first = (_number(page) - 1) * PER_PAGE
    return entries[first : first + PER_PAGE]


async def _found(page: Page, query: str) -> list[JsonObject]:
    """Return what a search finds, each with what a message with these words would do with it."""
    found = await page.call("searchMemories", body={"query": query, "limit": MAX_FOUND})
    recalled = await page.call("recall", body={"query": query})
    picks = {one["file"]: one for one in recalled["picks"]}
    ranked = {one["file"]: one for one in recalled["ranked"]}
    rows = []
    for one in found["memories"]:
        pick, rank = picks.get(one["file"]), ranked.get(one["file"], {})
        why = "" if pick else rank.get("why") or recalled["skipped"] or "not relevant enough"
        rows.append({
            **one, "attached": pick is not None, "why": why,
            "reasons": reasons(pick["parts"]) if pick else [],
            "confidence": rank.get("confidence"),
        })  # fmt: skip
    return rows


async def memory(page: Page) -> Response:
    """Show one memory: text, why it is remembered, history, names that are gone, links."""
    file = page.request.path_params["file"]
    origin = await page.call("getOrigin", path={"file": file})
    space = await page.space()
    entry: dict[str, Any] | None = None
    if origin["exists"]:
        entry = await page.call("getMemory", path={"file": file})
    changes = await page.call("listCommitsOfMemory", path={"file": file}, limit=MAX_CHANGES)
    files = await space.listed.files()
    links = await _neighbours(page, space, file)
    shown = {one.file for one in await visible_entries(page)} if not page.key.local else set()

    def link_to(name: str) -> str:
        found = files.get(link_key(name))
        is_shown = found and (page.key.local or found in shown)
        return page.address(f"/memory/{found}") if is_shown else ""

    drift = await _drift(space.memory, entry["body"]) if entry else None
    return await page.html(
        "memory.html", file=file, entry=entry, origin=origin, commits=changes["commits"], link_to=link_to,
        links=links, drift=drift, is_description_new=_says_more(entry),
        proposal=await _waiting_for(page, file),
    )  # fmt: skip


def _says_more(entry: dict[str, Any] | None) -> bool:
    """Return whether the description says what the text does not."""
    said, text = (_plain(str((entry or {}).get(name) or "")) for name in ("description", "body"))
    return bool(said) and said not in text


def _plain(text: str) -> str:
    return " ".join("".join(sign if sign.isalnum() else " " for sign in text.casefold()).split())


async def _waiting_for(page: Page, file: str) -> dict[str, Any] | None:
    """Return the proposal about a memory, if there is one."""
    found = await page.call("listProposals")
    return next((one for one in found["proposals"] if one["file"] == file), None)


async def _neighbours(page: Page, space: Space, file: str) -> dict[str, list[Entry]]:
    """Return the memories that a memory links to, and those that link to it."""
    links = await space.listed.links()
    back = [one for one, others in links.items() if file in others and one != file]
    wanted = {*links.get(file, ()), *back} - {file}
    entries = {one.file: one for one in await visible_entries(page) if one.file in wanted}
    return {
        "to": [entries[one] for one in links.get(file, ()) if one in entries],
        "from": [entries[one] for one in back if one in entries],
    }


async def _drift(memory: Memory, body: str) -> Drift | None:
    """Return which names in a text still exist in the project; None if it belongs to none."""
    root = memory.location.root
    if root is None or not root.is_dir():
        return None
    from nacre.memory.recall.drift.check import check  # noqa: PLC0415 - few servers serve a project

    found = await asyncio.to_thread(check, body, root, budget_seconds=DRIFT_SECONDS)
    return found if found.references else None


async def edit(page: Page) -> Response:
    """Show the form to change a memory."""
    file = page.request.path_params["file"]
    entry = await page.call("getMemory", path={"file": file})
    data = await _bytes(page, file)
    given = {
        "text": entry["body"], "name": entry["name"], "description": entry["description"],
        "type": entry["type"] or "", "version": version_of(data),
    }  # fmt: skip
    return await _form(page, file, given)


async def new(page: Page) -> Response:
    return await _form(page, "", {"text": "", "name": "", "description": "", "type": "", "version": ""})


async def _form(
    page: Page, file: str, given: dict[str, str], *, error: str = "", theirs: str = "", status: int = 200
) -> Response:
    if not page.key.allows("member"):
        raise ProblemError(
            HTTPStatus.FORBIDDEN, f"this needs a key of the role member; this is a {page.key.role}"
        )
    preview = await _preview(page, file, given) if given["text"].strip() else None
    return await page.html(
        "edit.html", status=status, file=file, given=given, kinds=KINDS, preview=preview, error=error,
        theirs=theirs,
    )  # fmt: skip


def _given(page: Page) -> dict[str, str]:
    return {name: page.form.get(name, "") for name in ("text", "name", "description", "type", "version")}


async def preview(page: Page) -> Response:
    """Show what a save would write, for the script of the form."""
    given = _given(page)
    found = await _preview(page, page.form.get("file", ""), given) if given["text"].strip() else None
    text = page.templates.get_template("preview.html").render(preview=found)
    return HTMLResponse(text.encode(errors="replace"))


async def _preview(page: Page, file: str, given: dict[str, str]) -> dict[str, Any]:
    """Return the text as it would be shown, what would change, and what lint says about it."""
    memory = (await page.space()).memory
    before = await _bytes(page, file) if file else b""
    kind = next((one for one in KINDS if one == given["type"]), None)
    previous = MarkdownFile.parse(before) if before else None
    is_same = previous is not None and previous.body.strip() == given["text"].strip()
    draft = MemoryDraft(
        body=given["text"], name=given["name"], description=given["description"], file=file,
        kind=kind or kind_of(given["text"]), origin=read_entry(file, before).origin if is_same else "user",
    )  # fmt: skip
    after = compose(draft, file=file or "new.md", now=page.parts.clock.now(), previous=previous)
    problems = [] if file else ["a memory on the same subject is updated instead of adding a second one"]

    def checked() -> list[dict[str, str]]:
        found = lint_file(memory.location.directory, file or "new.md", after)
        return [{"level": one.level, "message": one.message} for one in found]

    lint = await asyncio.to_thread(checked)
    try:
        refuse_secrets(given["text"], name=given["name"], description=given["description"])
    except StoreError as error:
        lint.insert(0, {"level": "error", "message": str(error)})
    return {
        "text": given["text"],
        "diff": _diff(before, after) if file else "",
        "lint": lint,
        "notes": problems,
        "bytes": len(after),
    }


def _diff(before: bytes, after: bytes) -> str:
    old, new = (data.decode(errors="replace").splitlines() for data in (before, after))
    # The time of a change is not what a person compares.
    old, new = ([one for one in lines if not one.startswith("modified:")] for lines in (old, new))
    return "\n".join(list(difflib.unified_diff(old, new, lineterm=""))[2:])


async def save(page: Page) -> Response:
    """Save the form; if the memory has changed meanwhile, show both texts."""
    file = page.request.path_params.get("file", "")
    given = _given(page)
    if page.form.get("do") == "preview":
        return await _form(page, file, given)
    body = {name: given[name] for name in ("text", "name", "description", "type") if given[name]}
    try:
        if file and not (body := await _changed(page, file, body)):
            return page.redirect(f"/memory/{file}", done="unchanged")
        if file:
            done = await page.call(
                "changeMemory", path={"file": file}, body=body, if_match=f'"{given["version"]}"'
            )
        else:
            done = await page.call("saveMemory", body=body)
    except VersionConflict:
        data = await _bytes(page, file)
        theirs = MarkdownFile.parse(data).body
        error = "It has changed since you opened it. Below is your text; save again to replace the other."
        given |= {"version": version_of(data)}
        return await _form(page, file, given, error=error, theirs=theirs, status=HTTPStatus.CONFLICT)
    except NacreError as error:
        return await _form(page, file, given, error=str(error), status=HTTPStatus.UNPROCESSABLE_ENTITY)
    return page.redirect(f"/memory/{done['file']}", done="saved", commit=done["commit"])


async def _changed(page: Page, file: str, given: dict[str, str]) -> dict[str, str]:
    """Return the fields that differ from the memory: an unchanged text keeps who has said it."""
    entry = await page.call("getMemory", path={"file": file})
    before = {"text": entry["body"], **{name: entry[name] or "" for name in ("name", "description", "type")}}
    return {name: value for name, value in given.items() if value.strip() != before[name].strip()}


async def forget(page: Page) -> Response:
    file = page.request.path_params["file"]
    done = await page.call("forgetMemory", path={"file": file})
    return page.redirect("/memories", done="forgotten", commit=done["commit"])


async def undo(page: Page) -> Response:
    """Undo a commit, and go back to the page it was asked on."""
    done = await page.call("undo", body={"commit": page.form.get("commit", "")})
    file = page.form.get("file", "")
    where = f"/memory/{file}" if file else page.form.get("back", "/history")
    where = where if where in {"/history", "/dreams", "/memories"} or file else "/history"
    return page.redirect(where, done="undone", commit=done["commit"])


async def history(page: Page) -> Response:
    """List the changes of a space."""
    found = await page.call("listCommits", limit=MAX_CHANGES)
    return await page.html("history.html", commits=found["commits"])


async def commit(page: Page) -> Response:
    """Show what a commit changed."""
    found = await page.call("getCommit", path={"commit": page.request.path_params["commit"]})
    listed = await page.call("listCommits", limit=500)
    head = next((one for one in listed["commits"] if one["commit"] == found["commit"]), None)
    return await page.html("commit.html", found=found, head=head)


async def review(page: Page) -> Response:
    """List what waits for a decision."""
    found = await page.call("listProposals")
    return await page.html("review.html", proposals=found["proposals"])


async def decide(page: Page) -> Response:
    is_accepted = page.form.get("do") == "accept"
    done = await page.call("decideProposal", body={"id": page.form.get("id", ""), "accept": is_accepted})
    where = "/dreams" if page.form.get("back") == "/dreams" else "/review"
    return page.redirect(where, done="accepted" if is_accepted else "rejected", commit=done["commit"])


async def graph(page: Page) -> Response:
    """Draw the links between memories."""
    links = await (await page.space()).listed.links()
    entries = {one.file: one for one in await visible_entries(page)}
    pairs = [(one, two) for one, others in links.items() for two in others if one != two]
    pairs = [(one, two) for one, two in pairs if one in entries and two in entries]
    count = Counter(file for pair in pairs for file in pair)
    chosen = {file for file, _ in count.most_common(MAX_GRAPH)}
    names = [
        (one.file, one.title, one.kind or "none")
        for one in sorted((entries[file] for file in chosen), key=lambda one: (one.kind or "", one.title))
    ]
    shown = [pair for pair in pairs if pair[0] in chosen and pair[1] in chosen]
    return await page.html(
        "graph.html", graph=circle(names, shown), total=len(count), links=len(pairs), all=len(entries)
    )


async def _bytes(page: Page, file: str) -> bytes:
    """Return the bytes of a memory that the key may see."""
    await page.call("getMemory", path={"file": file})  # raises if it may not
    directory = (await page.location()).directory
    return await asyncio.to_thread(lambda: Folder(directory).read(file) or b"")


ROUTES = (
    ("GET", "/memories", memories),
    ("GET", "/memories/new", new),
    ("POST", "/memories/new", save),
    ("GET", "/memory/{file:path}", memory),
    ("GET", "/edit/{file:path}", edit),
    ("POST", "/edit/{file:path}", save),
    ("POST", "/preview", preview),
    ("POST", "/forget/{file:path}", forget),
    ("POST", "/undo", undo),
    ("GET", "/history", history),
    ("GET", "/commit/{commit}", commit),
    ("GET", "/review", review),
    ("POST", "/review", decide),
    ("GET", "/graph", graph),
)
