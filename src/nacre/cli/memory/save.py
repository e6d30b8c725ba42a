"""`nacre memory save` and `edit`: save a memory, or change one in the user's editor."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from nacre.cli.memory.open import by_hand, json_option, run, scope_option, writable
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import is_terminal, print_error, print_json, printable
from nacre.errors import StoreError
from nacre.formatting import shorten

if TYPE_CHECKING:
    from nacre.memory.format.entry import Entry, MemoryDraft
    from nacre.memory.memory import Memory

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
@click.option("--pointer", is_flag=True, help="Save the text without the values of credentials.")
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
    if given["pointer"] and given["allow_secret"]:
        raise click.UsageError("--pointer and --allow-secret exclude each other: choose one")
    body, asks = _body(text)
    asks = asks and not given["as_json"]
    draft = _draft(body, given)
    scope = str(given["scope"])
    checked = _without_secret(draft, given, asks=asks)
    if checked is None:
        print_error("nothing was saved")
        return 1
    draft, allow_secret = checked
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
    saved = run(opened.save(draft, by_hand("saved by hand"), allow_secret=allow_secret))
    if given["as_json"]:
        print_json(
            {
                "file": saved.entry.file,
                "commit": saved.commit,
                "path": str(opened.location.directory / saved.entry.file),
                "replaced": saved.before.body if saved.before else None,
                "feedback": saved.feedback,
            }
        )
        return 0
    did = "saved" if saved.before is None else "updated" if saved.commit else "unchanged:"
    print(printable(f"{did} {saved.entry.file}"))
    if saved.before and saved.commit and not asks:
        print(printable(f"before, it said: {shorten(saved.before.body, 200)}"))
        where = "" if scope == "project" else f" --scope {scope}"
        print(printable(f"`nacre memory undo {saved.commit[:10]}{where}` brings that back."))
    if saved.feedback:
        print_error(saved.feedback)
    return 0


def _without_secret(
    draft: MemoryDraft, given: dict[str, str | bool | None], *, asks: bool
) -> tuple[MemoryDraft, bool] | None:
    """Return the draft to save and whether it may hold a credential; None if the user cancels (M16)."""
    from nacre.memory.secrets import find_in_draft, pointer_text, refusal

    pointer = replace(
        draft,
        body=pointer_text(draft.body),
        name=pointer_text(draft.name),
        description=pointer_text(draft.description),
    )
    if given["pointer"]:
        return pointer, False
    is_team = given["scope"] == "team"
    allowed = bool(given["allow_secret"])
    if allowed and not is_team:
        return draft, True
    findings = find_in_draft(draft.body, name=draft.name, description=draft.description, file=draft.file)
    if not findings:
        return draft, allowed
    if is_team or not asks:
        anyway = "" if is_team else ", or --allow-secret to save it anyway"
        never = ": the team's memory never holds one;" if is_team else "; or"
        raise StoreError(
            f"{refusal(findings)}{never} add --pointer to save the text without the value{anyway}"
        )
    print(printable(f"the text seems to hold credentials ({', '.join(map(str, findings))})"))
    print(printable(f"  without the value: {shorten(' '.join(pointer.body.split()), 200)}"))
    try:
        word = input("[s]ave anyway, save a [p]ointer without the value, [C]ancel: ").strip().lower()
    except EOFError:
        print()
        word = ""
    if word in {"s", "save"}:
        return draft, True
    return (pointer, False) if word in {"p", "pointer"} else None


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


def _chosen(opened: Memory, draft: MemoryDraft) -> MemoryDraft | None:
    """Return the draft with the file that the user chose; None if they cancel (M14c)."""
    from nacre.memory.format.entry import description_of, file_name, file_title, kind_of, title_of
    from nacre.memory.similarity import same_subject

    name = draft.name or title_of(draft.body)
    description = draft.description or description_of(draft.body, name)
    there = same_subject(draft.name or description_of(draft.body, ""), description, run(opened.list()))
    if there is None:
        return draft
    choice = ask_conflict(there, draft)
    if choice == "cancel":
        return None
    if choice == "replace":
        return replace(draft, file=there.file)
    taken = [entry.file for entry in run(opened.scan()).entries]
    kind = draft.kind or kind_of(draft.body, is_shared=opened.location.source == "team")
    return replace(draft, file=file_name(file_title(kind, name), taken=taken))


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
    data = sys.stdin.buffer.read() if sys.stdin else b""
    if b"\0" in data:
        raise click.UsageError("the input is binary, not text; nothing was saved")
    return data.decode(errors="replace"), False


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


INDEX = "MEMORY.md"


@click.command(short_help="Edit a memory in your editor.")
@click.argument("name")
@click.option("--allow-secret", is_flag=True, help="Save even if it seems to contain a credential.")
@scope_option
@click.pass_obj
def edit(options: RunOptions, /, name: str, *, allow_secret: bool, scope: str) -> int:
    """Open a memory, or MEMORY.md, in $VISUAL or $EDITOR; the result is one commit."""
    from nacre.app.editor import edited_by_hand, editor, put_aside
    from nacre.memory.files.folder import Folder, version_of

    editor()  # raises first if there is no editor
    opened = run(writable(options, scope))
    file = INDEX if name == INDEX else run(opened.find(name)).file
    data = Folder(opened.location.directory).read(file)
    with tempfile.TemporaryDirectory(prefix="nacre-") as folder:
        copy = Path(folder) / Path(file).name
        copy.write_bytes(data or b"")
        edited_by_hand(copy)
        new = copy.read_bytes()
        if new == (data or b""):
            print_error(f"{file} is unchanged")
            return 0
        change = by_hand("edited by hand")
        try:
            version = version_of(data)
            commit = run(opened.put(file, new, change, if_version=version, allow_secret=allow_secret))
        except StoreError as error:
            kept = put_aside(new, file)
            raise StoreError(f"{error}; your text is in {kept}") from error
    print(printable(f"updated {file} ({commit[:10]})"))
    return 0
