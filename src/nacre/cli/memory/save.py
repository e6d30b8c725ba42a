"""`nacre memory save`: save a memory; at a terminal one on the same subject is shown first."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import click

from nacre.cli.memory.open import by_hand, json_option, run, scope_option, writable
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import is_terminal, print_error, print_json, printable

if TYPE_CHECKING:
    from nacre.memory.format.entry import Entry, MemoryDraft
    from nacre.memory.memory import Memory, Saved
    from nacre.messages.blocks import JsonObject

KINDS = ("user", "feedback", "project", "reference")
Choice = Literal["replace", "keep", "cancel"]
_CHOICES: dict[str, Choice] = {
    "r": "replace",
    "replace": "replace",
    "k": "keep",
    "keep": "keep",
    "both": "keep",
}


@click.command(short_help="Save a memory.")
@click.argument("text", required=False, metavar="[TEXT|-]")
@click.option("--type", "kind", type=click.Choice(KINDS), help="Kind of memory.")
@click.option("--name", default="", help="A short title (default: from the text).")
@click.option("--description", default="", help="One line to find it by (default: from the text).")
@click.option("--file", default="", metavar="FILE", help="The memory file to write or replace.")
@click.option("--allow-secret", is_flag=True, help="Save even if it seems to contain a credential.")
@click.option("--local-only", is_flag=True, help="Never send it to a provider on another machine.")
@click.option("--pin", is_flag=True, help="Always keep its line in the index.")
@scope_option
@json_option
@click.pass_obj
def save(options: RunOptions, /, text: str | None, **given: str | bool | None) -> int:
    """Save TEXT, or stdin, as a memory with its line in the index.

    A memory on the same subject is updated, and its old text stays in the history; at a terminal both are
    shown and you choose. If memory is a daily log, TEXT becomes a line of today's.
    """
    body, asks = _body(text)
    asks = asks and not given["as_json"]
    draft = _draft(body, given)
    scope = str(given["scope"])
    if scope == "team" or not given["allow_secret"]:
        _refuse_secrets(draft, is_team=scope == "team")
    opened = run(writable(options, scope))
    if (
        scope == "project"
        and not (draft.file or draft.name)
        and load_settings(options).memory.mode == "daily"
    ):
        return _log(opened, draft, as_json=bool(given["as_json"]))
    if asks and not draft.file:
        chosen = _chosen(opened, draft)
        if chosen is None:
            print_error("nothing was saved")
            return 1
        draft = chosen
    saved = run(opened.save(draft, by_hand("saved by hand"), allow_secret=bool(given["allow_secret"])))
    if given["as_json"]:
        print_json(_as_json(saved, opened))
        return 0
    print(printable(f"{'updated' if saved.before else 'saved'} {saved.entry.file}"))
    if saved.before and not asks:
        print(printable(f"before, it said: {_short(saved.before.body)}"))
        where = "" if scope == "project" else f" --scope {scope}"
        print(printable(f"`nacre memory undo {saved.commit[:10]}{where}` brings that back."))
    if saved.feedback:
        print_error(saved.feedback)
    return 0


def _log(opened: Memory, draft: MemoryDraft, *, as_json: bool) -> int:
    from nacre.clock import SYSTEM_CLOCK
    from nacre.memory.daily_log import append_fact

    change = by_hand("saved by hand")
    done = run(append_fact(opened, draft.body, change, clock=SYSTEM_CLOCK, kind=draft.kind))
    if as_json:
        print_json({"file": done.line.file, "commit": done.commit, "line": done.line.line})
    else:
        print(
            printable(f"logged in {done.line.place}" if done.commit else f"{done.line.place} says so already")
        )
    return 0


def _as_json(saved: Saved, opened: Memory) -> JsonObject:
    return {
        "file": saved.entry.file,
        "commit": saved.commit,
        "path": str(opened.location.directory / saved.entry.file),
        "replaced": saved.before.body if saved.before else None,
        "feedback": saved.feedback,
    }


def _chosen(opened: Memory, draft: MemoryDraft) -> MemoryDraft | None:
    """Return the draft with the file that the user chose; None if they cancel (M14c)."""
    there = run(_same(opened, draft))
    if there is None:
        return draft
    choice = ask_conflict(there, draft)
    if choice == "cancel":
        return None
    return replace(draft, file=there.file if choice == "replace" else run(_free(opened, draft)))


def ask_conflict(there: Entry, draft: MemoryDraft) -> Choice:
    """Show an entry beside the text that would replace it, and ask what to do; an unclear answer cancels."""
    print(printable(f"{there.file} is about the same thing:"))
    for title, body in (("now", there.body), ("new", draft.body)):
        for number, line in enumerate(body.strip().splitlines()):
            print(f"  {title if not number else '':4}| {printable(line)}")
    try:
        word = input("[r]eplace it, [k]eep both, [C]ancel: ").strip().lower()
    except EOFError:
        print()
        word = ""
    return _CHOICES.get(word, "cancel")


def _body(text: str | None) -> tuple[str, bool]:
    """Return the text, and whether the user can be asked about it."""
    if text is not None and text != "-":
        # An argument with invalid bytes becomes text that every editor opens.
        return text.encode(errors="replace").decode(), is_terminal(sys.stdin) and is_terminal()
    if text is None and is_terminal(sys.stdin):
        raise click.UsageError("the text is empty; give TEXT, or `-` to read it from stdin")
    return sys.stdin.buffer.read().decode(errors="replace") if sys.stdin else "", False


def _draft(body: str, given: dict[str, str | bool | None]) -> MemoryDraft:
    from nacre.memory.format.entry import KINDS as KNOWN
    from nacre.memory.format.entry import MemoryDraft

    file = str(given["file"])
    if file.rpartition("/")[2].casefold().removesuffix(".md") == "memory":
        raise click.UsageError("MEMORY.md is the index; `nacre memory edit MEMORY.md` changes it")
    return MemoryDraft(
        body=body,
        kind=next((kind for kind in KNOWN if kind == given["kind"]), None),
        name=str(given["name"]),
        description=str(given["description"]),
        file=file if file.endswith(".md") or not file else f"{file}.md",
        pinned=True if given["pin"] else None,
        local_only=True if given["local_only"] else None,
    )


def _refuse_secrets(draft: MemoryDraft, *, is_team: bool) -> None:
    """Before anything is asked or created; the override is for users only, and never for a team."""
    from nacre.errors import StoreError
    from nacre.memory.secrets import find_secrets, refusal

    if findings := find_secrets("\n".join((draft.body, draft.name, draft.description))):
        way_out = ": the team's memory never holds one" if is_team else ", or add --allow-secret"
        raise StoreError(f"{refusal(findings)}{way_out}")


async def _same(opened: Memory, draft: MemoryDraft) -> Entry | None:
    from nacre.memory.format.entry import description_of, title_of
    from nacre.memory.similarity import same_subject

    name = draft.name or title_of(draft.body)
    description = draft.description or description_of(draft.body)
    return same_subject(name, description, await opened.list())


async def _free(opened: Memory, draft: MemoryDraft) -> str:
    from nacre.memory.format.entry import file_name, title_of

    taken = [entry.file for entry in (await opened.scan()).entries]
    return file_name(draft.name or title_of(draft.body), taken=taken)


def _short(body: str) -> str:
    text = " ".join(body.split())
    return text if len(text) <= 200 else text[:199] + "…"
