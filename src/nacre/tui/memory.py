"""The memory browser: list, text and origin, changes, proposals."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import Worker

from nacre.app.editor import put_aside
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import NacreError, StoreError
from nacre.formatting import human_age, human_count, printable, shorten
from nacre.inspect.memory_origin import change_line, origin_lines
from nacre.inspect.original_words import original_words
from nacre.memory.checks.review import Proposal, accept, reject, rejected_line, waiting
from nacre.memory.files.folder import Folder, version_of
from nacre.memory.files.transaction import pick_up
from nacre.memory.files.undo import newest_in_force, unconfirmed_changes, undo
from nacre.memory.format.entry import Entry, MemoryChange, read_entry
from nacre.memory.memory import Memory
from nacre.store.history import Commit
from nacre.tui.commands import key_hints
from nacre.tui.dialogs import Editor
from nacre.tui.own_editor import edited_elsewhere

_EMPHASIS = re.compile(r"\*\*(?P<bold>[^\s*](?:[^*]*[^\s*])?)\*\*|`(?P<code>[^`]+)`")
MOST_CHANGES = 1_000
"""Changes of one memory that are listed."""
SEARCH_SECONDS = 0.15
"""Pause in typing after which memories are searched."""
DESCRIPTION_CHARS = 60
"""Columns of a description."""
NAME_CELLS = 24
_WHOSE = {"user": "yours", "team": "team", "agent": "agent"}
"""Scope by the source of its location; all others are of the project here."""


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """A memory, a change of it, or a proposal."""

    memory: Memory
    file: str
    line: str
    commit: str = ""
    proposal: Proposal | None = None

    def is_same(self, other: MemoryRow) -> bool:
        """Whether both rows stand for the same thing."""
        return (self.memory.location, self.file, self.commit, self.proposal and self.proposal.id) == (
            other.memory.location,
            other.file,
            other.commit,
            other.proposal and other.proposal.id,
        )


@dataclass(frozen=True, slots=True)
class SessionMemories:
    """All memories of a session."""

    memories: Sequence[Memory]
    home: Path
    session: str
    clock: Clock = SYSTEM_CLOCK

    async def entries(self) -> list[MemoryRow]:
        """Return every memory, newest first in each directory."""
        rows = []
        scopes = {_WHOSE.get(memory.location.source, "here") for memory in self.memories}
        for memory in self.memories:
            doubted = await self._doubted(memory)
            for each in (await memory.scan()).entries:
                when = each.modified or each.written
                age = human_age(when, self.clock.now()) if when else "-"
                marks = f"({each.origin}) " * (not each.is_trusted) + "(unconfirmed edit) " * (
                    each.file in doubted
                )
                about = shorten(f"{marks}{each.description or '-'}", DESCRIPTION_CHARS)
                whose = _WHOSE.get(memory.location.source, "here")
                scope = f"{whose:<6} " * (len(scopes) > 1)
                line = f"{scope}{each.kind or '-':<9} {age:>6}  {_in_cells(_short_name(each))}  {about}"
                rows.append(MemoryRow(memory, each.file, printable(line)))
        return rows

    async def matching(self, rows: Sequence[MemoryRow], wanted: str) -> list[MemoryRow]:
        """Return the memories with all of these words in their row or text."""
        words = wanted.casefold().split()
        if not words:
            return list(rows)

        def is_match(row: MemoryRow) -> bool:
            with suppress(NacreError, OSError):
                data = Folder(row.memory.location.directory).read(row.file) or b""
                text = f"{row.line}\n{data.decode(errors='replace')}".casefold()
                return all(word in text for word in words)
            return False

        return await asyncio.to_thread(lambda: [row for row in rows if is_match(row)])

    async def _doubted(self, memory: Memory) -> Collection[str]:
        """Return the unconfirmed files; an unreadable history must not hide the memories."""
        try:
            return (await asyncio.to_thread(unconfirmed_changes, memory.location)).files.keys()
        except StoreError:
            return ()

    async def changes(self, row: MemoryRow) -> list[MemoryRow]:
        """Return the changes of a memory, newest first."""
        await pick_up(row.memory.location)  # what was edited by other means is a change, too
        confirmed = (await asyncio.to_thread(unconfirmed_changes, row.memory.location)).confirmed
        commits = await row.memory.log(limit=MOST_CHANGES, file=row.file)
        return [
            MemoryRow(row.memory, row.file, printable(change_line(one, confirmed)), one.id) for one in commits
        ]

    def proposals(self) -> list[MemoryRow]:
        """Return the proposals that wait for review."""
        return [
            MemoryRow(
                memory,
                one.file,
                printable(f"{one.id}  {one.what:<6}  {one.author:<10}  {one.file}"),
                proposal=one,
            )
            for memory in self.memories
            for one in waiting(memory.location)
        ]

    async def text(self, row: MemoryRow) -> str:
        """Return the file's text."""
        data = await asyncio.to_thread(Folder(row.memory.location.directory).read, row.file)
        return (data or b"").decode(errors="replace")

    async def diff(self, row: MemoryRow) -> str:
        """Return the diff of a change or a proposal."""
        if row.proposal is not None:
            return "\n".join(row.proposal.diff())
        return "\n".join(each.text for each in await row.memory.diff(row.commit) if each.file == row.file)

    async def why(self, row: MemoryRow) -> str:
        """Return the origin of a memory, with the original words if a log still has them."""
        data = Folder(row.memory.location.directory).read(row.file)
        entry = read_entry(row.file, data or b"")
        commits = await row.memory.log(limit=MOST_CHANGES, file=row.file)
        doubted = await asyncio.to_thread(unconfirmed_changes, row.memory.location)
        homes = (row.memory.location.base, self.home)
        words = await asyncio.to_thread(original_words, homes, entry.sources)
        message = [f"  {said.role} said: {said.text}" for said in words]
        return "\n".join([*origin_lines(entry, commits, doubted, is_there=data is not None), *message])

    async def keep(self, row: MemoryRow, before: str, after: str) -> None:
        """Write the edited file; raises if another process changed it meanwhile."""
        await row.memory.put(
            row.file, after.encode(), self._by_hand("edited by hand"), if_version=version_of(before.encode())
        )

    async def forget(self, row: MemoryRow) -> str:
        entry, _ = await row.memory.forget(row.file, self._by_hand("forgotten by hand"))
        return f"forgot {entry.file}; u brings it back"

    async def take_back(self, memory: Memory, commit: str) -> str:
        """Undo a change; later changes stay."""
        change = self._by_hand(f"undo {commit[:10]}")
        await undo(memory.location, commit, change=change, clock=memory.clock, watch=memory.watch)
        return f"took back {commit[:10]}"

    async def newest(self) -> tuple[Memory, str] | None:
        """Return the newest change that is not undone, in any directory."""
        found = [(memory, await asyncio.to_thread(_newest, memory)) for memory in self.memories]
        changes = [(memory, commit) for memory, commit in found if commit is not None]
        if not changes:
            return None
        memory, commit = max(changes, key=lambda one: one[1].at)
        return memory, commit.id

    async def accept(self, row: MemoryRow) -> str:
        assert row.proposal is not None, "only proposals are accepted"
        await accept(row.memory, row.proposal.id)
        done = "confirmed" if row.proposal.what == "confirm" else "saved"
        return f"{done} {row.file}; u in its history takes it back"

    async def reject(self, row: MemoryRow) -> str:
        assert row.proposal is not None, "only proposals are rejected"
        one = await reject(row.memory, row.proposal.id)
        return rejected_line(one)

    def size(self, row: MemoryRow, text: str) -> str:
        """Return the heading of a memory."""
        path = str(row.memory.location.directory / row.file)
        below_home = path.removeprefix(f"{Path.home()}/")
        path = path if below_home == path else f"~/{below_home}"
        return f"{path} ({human_count(len(text.encode()))} bytes)"

    def _by_hand(self, reason: str) -> MemoryChange:
        return MemoryChange(author="user", reason=reason, session=self.session)


def with_emphasis(line: str) -> Content:
    """Return a line of Markdown with bold words and code in their styles; all else stays as it is written."""
    parts: list[Content | str] = []
    end = 0
    for found in _EMPHASIS.finditer(line):
        style = "bold" if found["bold"] else "bold $secondary"
        parts += [line[end : found.start()], Content.styled(found["bold"] or found["code"], style)]
        end = found.end()
    return Content.assemble(*parts, line[end:])


def shown_memory(file: str, text: str) -> str:
    """Return what a memory says: its facts on a line, then its text, with nothing said twice."""
    entry = read_entry(file, text.encode())
    body = entry.body.strip()
    dates = {"created": entry.created, "modified": entry.modified, "verified": entry.verified}
    facts = [
        *([entry.kind] if entry.kind else []),
        *([entry.origin] if entry.origin != "user" else []),
        *(f"{name} {at.astimezone():%Y-%m-%d}" for name, at in dates.items() if at),
        *(["pinned"] if entry.pinned else []),
        *(["never leaves this machine"] if entry.local_only else []),
    ]
    said = " ".join(body.split()).casefold()
    about = entry.description if entry.description.rstrip(".").casefold() not in said else ""
    return "\n\n".join(part for part in (" · ".join(facts), about, body) if part)


def _short_name(entry: Entry) -> str:
    """Return the name of a memory's file without its type, which has a column of its own."""
    return entry.file.removesuffix(".md").removeprefix(f"{entry.kind}_")


def _in_cells(name: str) -> str:
    """Pad names to equal width: Chinese characters take two columns."""
    return Content(name).truncate(NAME_CELLS, ellipsis=True, pad=True).plain


def _newest(memory: Memory) -> Commit | None:
    with suppress(StoreError):  # nothing was ever changed, or all of it taken back
        return newest_in_force(memory.location)
    return None


Mode: TypeAlias = Literal["entries", "changes", "proposals"]
KEYS = {
    "entries": "/ search · w why · h history · e/E edit · d forget · u undo · r review · Esc",
    "changes": "↑↓ what each change did · u take it back · Esc to the list",
    "proposals": "↑↓ what each would do · a accept · x reject · Esc to the list",
}
TITLES = {"entries": "Memory", "changes": "Changes of {file}", "proposals": "Proposed for memory"}
NOTHING = {
    "entries": "there are no memories yet: say `remember that …`, or `nacre memory save TEXT`",
    "changes": "no change of it is on record",
    "proposals": "there are no proposals to review",
}
_STYLES = {"+": "$success", "-": "$error", "@": "$secondary"}


class MemoryBrowser(ModalScreen[None]):
    """Rows above, details of the selected one below."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "back", "back"),
        Binding("f2", "dismiss", "close"),
        Binding("t", "show('text')", "text"),
        Binding("w", "show('why')", "why"),
        Binding("h", "changes", "history"),
        Binding("r", "proposals", "review"),
        Binding("e", "edit", "edit"),
        Binding("E", "edit_elsewhere", "your editor"),
        Binding("d", "forget", "forget"),
        Binding("u", "undo", "undo"),
        Binding("a", "accept", "accept"),
        Binding("x", "reject", "reject"),
        # With priority: the keys right after it are letters of the search, not commands.
        Binding("slash", "search", "search", priority=True),
        Binding("space", "scroll(1)", show=False),
        Binding("pagedown", "scroll(1)", show=False, priority=True),
        Binding("pageup", "scroll(-1)", show=False, priority=True),
    ]

    def __init__(self, memories: SessionMemories) -> None:
        super().__init__()
        self._memories = memories
        self._mode: Mode = "entries"
        self._wanted = ""
        """Words that the listed memories have."""
        self._rows: Sequence[MemoryRow] = ()
        self._entries: Sequence[MemoryRow] = ()
        """All memories; the rows may be narrowed by a search."""
        self._about: MemoryRow | None = None
        """The memory whose changes are listed."""
        self._shows: Literal["text", "why"] = "text"

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Static(id="title", classes="heading", markup=False)
            yield Input(placeholder="words of a memory", id="wanted", compact=True)
            yield OptionList(id="rows", compact=True, markup=False)
            with VerticalScroll(classes="preview", can_focus=False):
                yield Static(id="detail", markup=False)
            yield Static(id="status", markup=False)

    async def on_mount(self) -> None:
        self.query_one("#wanted").display = False
        await self._list("entries")
        self.query_one("#rows").focus()

    def action_search(self) -> None:
        if self._mode == "entries":
            self.query_one("#wanted").display = True
            self.set_focus(self.query_one("#wanted"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In the search, a slash is a letter."""
        return not (action == "search" and isinstance(self.focused, Input))

    def on_input_changed(self, event: Input.Changed) -> None:
        self._wanted = event.value.strip()
        _: Worker[None] = self.run_worker(self._narrow, group="search", exclusive=True)

    async def _narrow(self) -> None:
        await asyncio.sleep(SEARCH_SECONDS if self._wanted else 0)
        chosen = self.chosen
        self._rows = await self._memories.matching(self._entries, self._wanted)
        await self._show_rows(chosen)

    def on_input_submitted(self) -> None:
        self.query_one("#rows").focus()

    @property
    def chosen(self) -> MemoryRow | None:
        at = self.query_one("#rows", OptionList).highlighted
        return self._rows[at] if at is not None and at < len(self._rows) else None

    async def _list(self, mode: Mode, message: str = "") -> None:
        """Refresh the list; the selected row stays selected even if another one moved to the top."""
        chosen = self.chosen if mode == self._mode else self._about
        self._mode = mode
        try:
            self._rows = await self._found(mode)
        except NacreError as error:
            self._rows, message = (), str(error)
        await self._show_rows(chosen, message)

    async def _show_rows(self, chosen: MemoryRow | None, message: str = "") -> None:
        mode = self._mode
        shown = self.query_one("#rows", OptionList)
        at = self._place(chosen, shown.highlighted or 0)
        shown.set_options(Option(Content(row.line)) for row in self._rows)
        title = TITLES[mode].format(file=self._about.file if self._about else "")
        of_all = f" of {len(self._entries):,}" * (len(self._rows) != len(self._entries))
        count = f" · {len(self._rows):,}{of_all}" if mode == "entries" else ""
        self.query_one("#title", Static).update(Content.assemble((printable(title), "bold"), (count, "dim")))
        self._show_status(message)
        self.query_one(".dialog").set_class(not self._rows and not self._wanted, "-empty")
        if self._rows:
            shown.highlighted = at
            await self._look()
        else:
            is_narrowed = bool(self._entries) and mode == "entries"
            self._detail("no memory has these words" if is_narrowed else NOTHING[mode])

    def _place(self, chosen: MemoryRow | None, at: int) -> int:
        found = [place for place, row in enumerate(self._rows) if chosen and row.is_same(chosen)]
        return found[0] if found else max(0, min(at, len(self._rows) - 1))

    async def _found(self, mode: Mode) -> Sequence[MemoryRow]:
        match mode:
            case "entries":
                self._entries = await self._memories.entries()
                return await self._memories.matching(self._entries, self._wanted)
            case "changes":
                assert self._about is not None, "changes are those of a memory"
                return await self._memories.changes(self._about)
            case "proposals":
                return self._memories.proposals()

    def _show_status(self, line: str, style: str = "$warning") -> None:
        message = Content.styled(printable(line), style) if line else key_hints(KEYS[self._mode])
        self.query_one("#status", Static).update(message)

    async def on_option_list_option_highlighted(self) -> None:
        await self._look()

    async def on_option_list_option_selected(self) -> None:
        self._shows = "text"
        await self._look()

    async def _look(self) -> None:
        row = self.chosen
        if row is None:
            return
        try:
            if self._mode != "entries":
                self._detail(await self._memories.diff(row), is_diff=True)
            elif self._shows == "why":
                self._detail(await self._memories.why(row))
            else:
                text = await self._memories.text(row)
                self._show_memory(self._memories.size(row, text), shown_memory(row.file, text))
        except NacreError as error:
            self._show_status(str(error), "$error")

    def _show_memory(self, place: str, text: str) -> None:
        shown = Content("\n").join(with_emphasis(printable(line)) for line in text.splitlines())
        self.query_one("#detail", Static).update(Content.assemble((printable(place), "dim"), "\n", shown))
        self.query_one(".preview").scroll_home(animate=False)

    def _detail(self, text: str, *, is_diff: bool = False) -> None:
        styles = _STYLES if is_diff else {}
        lines = [Content.styled(printable(line), styles.get(line[:1], "")) for line in text.splitlines()]
        self.query_one("#detail", Static).update(Content("\n").join(lines))
        self.query_one(".preview").scroll_home(animate=False)

    def action_scroll(self, pages: int) -> None:
        pane = self.query_one(".preview")
        pane.scroll_relative(y=pages * max(1, pane.size.height - 1), animate=False)

    async def action_show(self, what: Literal["text", "why"]) -> None:
        self._shows = what
        await self._look()

    async def action_back(self) -> None:
        search = self.query_one("#wanted", Input)
        if search.display:
            search.value = ""
            search.display = False
            self._shows = "text"
            self.query_one("#rows").focus()
        elif self._mode == "entries" and self._shows == "why":
            await self.action_show("text")
        elif self._mode == "entries":
            self.dismiss()
        else:
            await self._list("entries")

    async def action_changes(self) -> None:
        if self._mode == "entries" and (row := self.chosen) is not None:
            self._about = row
            await self._list("changes")

    async def action_proposals(self) -> None:
        await self._list("proposals")

    async def action_edit(self) -> None:
        found = await self._to_edit()
        if found is None:
            return
        row, before = found
        keep: Callable[[str], Awaitable[None]] = partial(self._memories.keep, row, before)
        self.app.push_screen(Editor(row.file, before, keep), self._edited)

    async def _edited(self, is_kept: bool | None) -> None:
        await self._list("entries", "kept; u takes it back" if is_kept else "it is as it was")

    async def _to_edit(self) -> tuple[MemoryRow, str] | None:
        row = self.chosen
        if self._mode != "entries" or row is None:
            return None
        try:
            return row, await self._memories.text(row)
        except NacreError as error:
            self._show_status(str(error), "$error")
            return None

    async def action_edit_elsewhere(self) -> None:
        found = await self._to_edit()
        if found is None:
            return
        row, before = found
        try:
            after = edited_elsewhere(self.app, Path(row.file).name, before)
        except NacreError as error:
            self._show_status(str(error), "$error")
            return
        message = "it is as it was"
        if after != before:
            try:
                await self._memories.keep(row, before, after)
                message = "kept; u takes it back"
            except NacreError as error:
                message = f"{error}; your text is in {put_aside(after.encode(), row.file)}"
        await self._list("entries", message)

    async def action_forget(self) -> None:
        if self._mode == "entries" and (row := self.chosen) is not None:
            await self._act(self._memories.forget(row), "entries")

    async def action_undo(self) -> None:
        """In the history, undo the selected change; in the list, the newest of all."""
        row = self.chosen
        if self._mode == "changes" and row is not None:
            await self._act(self._memories.take_back(row.memory, row.commit), "changes")
        elif self._mode == "entries":
            found = await self._memories.newest()
            if found is None:
                self._show_status("nothing was changed yet")
            else:
                await self._act(self._memories.take_back(*found), "entries")

    async def action_accept(self) -> None:
        if self._mode == "proposals" and (row := self.chosen) is not None:
            await self._act(self._memories.accept(row), "proposals")

    async def action_reject(self) -> None:
        if self._mode == "proposals" and (row := self.chosen) is not None:
            await self._act(self._memories.reject(row), "proposals")

    async def _act(self, work: Awaitable[str], mode: Mode) -> None:
        try:
            message = await work
        except NacreError as error:
            self._show_status(str(error), "$error")
            return
        await self._list(mode, message)
