"""`nacre sessions show`: print a session; streamed, so that its size does not matter (T9)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import click

from nacre.cli.options import RunOptions, find_session, load_settings
from nacre.cli.output import has_colour, human_count, print_error, print_json, printable
from nacre.errors import TranscriptError
from nacre.formatting import counted
from nacre.inspect.export import ASIDES, compaction_line, moment, replacement_line
from nacre.messages.blocks import (
    Block,
    Document,
    Image,
    Json,
    JsonObject,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from nacre.messages.records import Compacted, Noted, Record, Replaced, Said, Undone
from nacre.messages.view import View
from nacre.messages.wire import render_blocks
from nacre.store.summaries import one_line, summarise


@click.command(short_help="Show a session.")
@click.argument("session", metavar="ID")
@click.option("--full", is_flag=True, help="Everything recorded, including what a compaction replaced.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def show(options: RunOptions, /, session: str, *, full: bool, as_json: bool) -> None:
    """Show a session: what the model would see if it continued, with long results shortened.

    With --full: everything that was ever recorded, in order and whole, including sub-agents, abandoned
    branches and the decisions of the layers. With --json, the messages as in a request, or all records.
    """

    path = find_session(load_settings(options), session)
    if as_json:
        _print_document(path, full=full)
        return
    summary = summarise(path)
    facts = [
        summary.cwd or "",
        moment(summary.started) if summary.started else "",
        f"{summary.messages:,} messages",
        f"{human_count(summary.tokens)} tokens" if summary.tokens else "",
        f"compacted {summary.compactions}x" if summary.compactions else "",
    ]
    print(f"session {printable(summary.session)}")
    print(printable("  ".join(fact for fact in facts if fact)))
    for line in shown_lines(_entries(path, full=full), full=full):
        print(line)


def _entries(path: Path, *, full: bool) -> Iterator[ShownItem]:
    from nacre.session.read_session import read_log, read_view, stream

    if not full and (looked := read_view(path)) is not None:
        before = looked.view.epochs.count("compact")
        yield from from_view(looked.view)
        if before:
            print_error(f"what {before} compaction{'s' * (before > 1)} replaced is omitted; --full shows it")
        return
    loaded = read_log(path) if full else None
    if loaded is None:
        print_error("this log is too large to build the view: all records are shown")
    for record in loaded.records if loaded else stream(path):
        entry = from_record(record)
        if full or entry.is_message:
            yield entry


def _print_document(path: Path, *, full: bool) -> None:
    from nacre.session.read_session import read_log, read_view, stream

    if not full:
        looked = read_view(path)
        if looked is None:
            raise TranscriptError(
                f"session {path.stem} is too large to be folded; use --full, or `nacre sessions export`"
            )
        messages: list[Json] = [*looked.view.messages]
        print_json({"session": path.stem, "tokens": looked.view.count(), "messages": messages})
        return
    loaded = read_log(path)
    print(f'{{"session": {json.dumps(path.stem)}, "records": [', end="")
    # Record by record: all of them might not fit in memory.
    for number, record in enumerate(loaded.records if loaded else stream(path)):
        sys.stdout.write((",\n" if number else "\n") + json.dumps(record_json(record)))
    print("\n]}")


LINE_CHARS = 160
"""Characters of a shortened call, result or thought: two lines of a terminal."""
ARGUMENT_CHARS = 60
"""Characters of one argument of a shortened call."""
META_LINES = 3
"""Lines shown of text that a program added to the conversation."""
_COLOURS = {"user": "cyan", "assistant": "green"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownItem:
    """A message, or a line about a change of the conversation."""

    at: datetime | None
    role: str = ""
    blocks: tuple[Block, ...] = ()
    marks: tuple[str, ...] = ()
    line: str = ""
    is_message: bool = True
    number: int = 0
    """Position in the view, from 1; None if not in view."""

    @property
    def has_results_only(self) -> bool:
        return bool(self.blocks) and all(isinstance(block, ToolResult) for block in self.blocks)


def from_view(view: View) -> Iterator[ShownItem]:
    """Yield the items of the view in order."""
    said = {record.id: record for record in view.records if isinstance(record, Said)}
    summaries = {
        record.summary_id or record.id: record for record in view.records if isinstance(record, Compacted)
    }
    for number, item in enumerate(view.items, 1):
        blocks = tuple(part.block for part in item.parts)
        if summary := summaries.get(item.record_id):
            yield ShownItem(at=summary.at, blocks=blocks, line=compaction_line(summary))
        else:
            record = said.get(item.record_id)
            marks = ("added by the program",) if record and record.meta else ()
            at = record.at if record else None
            yield ShownItem(at=at, role=item.role, blocks=blocks, marks=marks, number=number)


def from_record(record: Record) -> ShownItem:
    """Return the item of one record."""
    match record:
        case Said():
            marks = [ASIDES[record.aside]] if record.aside else []
            marks += ["added by the program"] if record.meta else []
            return ShownItem(at=record.at, role=record.role, blocks=record.blocks, marks=tuple(marks))
        case Compacted():
            return ShownItem(at=record.at, blocks=record.summary, line=compaction_line(record))
        case Replaced():
            return ShownItem(at=record.at, line=replacement_line(record), is_message=False)
        case Undone(target=target):
            return ShownItem(at=record.at, line=f"Undone: {target}", is_message=False)
        case Noted(kind=kind, facts=facts):
            return ShownItem(at=record.at, line=f"noted {kind} {json.dumps(facts)}", is_message=False)


def record_json(record: Record) -> JsonObject:
    """Return a record as JSON: its kind and its fields."""
    fields: JsonObject = {"record": type(record).__name__, "id": record.id, "at": record.at.isoformat()}
    match record:
        case Said():
            reply: JsonObject | None = None if record.reply is None else asdict(record.reply)
            return fields | {
                "role": record.role,
                "content": render_blocks(record.blocks),
                "aside": record.aside,
                "meta": record.meta,
                "reply": reply,
            }
        case Compacted():
            return fields | {
                "summary": render_blocks(record.summary),
                "first": record.first,
                "keeps_from": record.keeps_from,
                "trigger": record.trigger,
                "kind": record.kind,
                "pre_tokens": record.pre_tokens,
                "post_tokens": record.post_tokens,
            }
        case Replaced():
            changes: list[Json] = [
                {"at": asdict(change.at), "stands": render_blocks(change.stands)} for change in record.changes
            ]
            return fields | {"reason": record.reason, "changes": changes}
        case Undone():
            return fields | {"target": record.target}
        case Noted():
            return fields | {"kind": record.kind, "facts": record.facts}


def shown_lines(entries: Iterable[ShownItem], *, full: bool) -> Iterator[str]:
    """Yield output lines; consecutive messages of one speaker share a heading."""
    speaker: tuple[str, tuple[str, ...]] | None = ("", ())
    for entry in entries:
        if entry.line:
            if speaker is not None:
                yield ""
            yield _styled(printable(f"--- {entry.line}"), "yellow")
            speaker = None
        elif not entry.has_results_only:
            now = (entry.role, entry.marks)
            if now != speaker:
                yield ""
                name = f"{entry.role} ({', '.join(entry.marks)})" if entry.marks else entry.role
                when = f"  {entry.at.astimezone():%Y-%m-%d %H:%M:%S}" if entry.at else ""
                number = f"  #{entry.number}" if entry.number else ""
                yield (_styled(printable(name), _COLOURS.get(entry.role)) + when + number)
            speaker = now
        for block in entry.blocks:
            yield from _told(block, full=full, brief=bool(entry.marks) and not full)


def _styled(text: str, colour: str | None) -> str:
    return click.style(text, fg=colour, bold=True) if has_colour() else text


def _told(block: Block, *, full: bool, brief: bool) -> Iterator[str]:
    match block:
        case Text(text):
            yield from _lines(text, "  ", most=META_LINES if brief else None)
        case Thinking(text):
            yield from (
                _lines(f"(thinks) {text}", "  ")
                if full
                else [f"  (thinks) {printable(one_line(text, LINE_CHARS))}"]
            )
        case ToolCall(_, name, arguments):
            yield f"  -> {printable(_call(name, arguments, full=full))}"
        case ToolResult():
            yield from _result(block, full=full)
        case Image() | Document():
            yield f"  [{type(block).__name__.lower()}]"
        case Opaque(kind, wire):
            yield f"  [{printable(kind)}] {printable(json.dumps(wire)) if full else ''}".rstrip()


def _lines(text: str, indent: str, *, most: int | None = None) -> Iterator[str]:
    lines = text.strip("\n").splitlines() if text.strip() else []
    for line in lines[:most]:
        yield (indent + printable(line.expandtabs(4))).rstrip()
    if most is not None and len(lines) > most:
        yield f"{indent}... {counted(len(lines) - most, 'more line')}"


def _call(name: str, arguments: JsonObject, *, full: bool) -> str:
    if full:
        return f"{name} {json.dumps(arguments, ensure_ascii=False)}"
    given = ", ".join(f"{key}={_argument(value)}" for key, value in arguments.items())
    return one_line(f"{name}({given})", LINE_CHARS)


def _argument(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return one_line(text, ARGUMENT_CHARS)


def _result(result: ToolResult, *, full: bool) -> Iterator[str]:
    word = "<- error: " if result.is_error else "<- "
    others = [f"[{type(part).__name__.lower()}]" for part in result.content if not isinstance(part, Text)]
    text = result.text
    if full:
        yield f"  {word}{' '.join(others)}".rstrip()
        yield from _lines(text, "     ")
        return
    count = len(text.splitlines())
    size = f"  ({count:,} lines)" if count > 1 else ""
    shown = " ".join([one_line(text, LINE_CHARS), *others]).strip() or "(empty)"
    yield f"  {word}{printable(shown)}{size}"
