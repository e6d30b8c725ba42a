"""The memory browser: list, text and origin, changes, proposals."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from nacre.app.editor import edited_by_hand, put_aside
from nacre.errors import ConfigError, NacreError
from nacre.formatting import printable
from nacre.tui.editing import Editor
from nacre.tui.shelf import MemoryRow, Shelf

Mode: TypeAlias = Literal["entries", "changes", "proposals"]
KEYS = {
    "entries": "w why · h history · e edit (E yours) · d forget · u undo · r review · Esc",
    "changes": "↑↓ what each change did · u takes it back · Esc to the list",
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
        Binding("pagedown,space", "scroll(1)", show=False, priority=True),
        Binding("pageup", "scroll(-1)", show=False, priority=True),
    ]

    def __init__(self, shelf: Shelf) -> None:
        super().__init__()
        self._shelf = shelf
        self._mode: Mode = "entries"
        self._rows: Sequence[MemoryRow] = ()
        self._about: MemoryRow | None = None
        """The memory whose changes are listed."""
        self._shows: Literal["text", "why"] = "text"

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Static(id="title", classes="heading", markup=False)
            yield OptionList(id="rows", compact=True, markup=False)
            with VerticalScroll(classes="preview", can_focus=False):
                yield Static(id="detail", markup=False)
            yield Static(id="told", markup=False)

    async def on_mount(self) -> None:
        await self._list("entries")
        self.query_one("#rows").focus()

    @property
    def chosen(self) -> MemoryRow | None:
        at = self.query_one("#rows", OptionList).highlighted
        return self._rows[at] if at is not None and at < len(self._rows) else None

    async def _list(self, mode: Mode, told: str = "") -> None:
        """Refresh the list; the selected row stays selected even if another one moved to the top."""
        chosen = self.chosen if mode == self._mode else self._about
        self._mode = mode
        try:
            self._rows = await self._found(mode)
        except NacreError as error:
            self._rows, told = (), str(error)
        shown = self.query_one("#rows", OptionList)
        at = self._place(chosen, shown.highlighted or 0)
        shown.set_options(Option(Content(row.line)) for row in self._rows)
        title = TITLES[mode].format(file=self._about.file if self._about else "")
        self.query_one("#title", Static).update(Content.styled(printable(title), "bold"))
        self._tell(told)
        if self._rows:
            shown.highlighted = at
            await self._look()
        else:
            self._detail(NOTHING[mode])

    def _place(self, chosen: MemoryRow | None, at: int) -> int:
        found = [place for place, row in enumerate(self._rows) if chosen and row.is_same(chosen)]
        return found[0] if found else max(0, min(at, len(self._rows) - 1))

    async def _found(self, mode: Mode) -> Sequence[MemoryRow]:
        match mode:
            case "entries":
                return await self._shelf.entries()
            case "changes":
                assert self._about is not None, "changes are those of a memory"
                return await self._shelf.changes(self._about)
            case "proposals":
                return self._shelf.proposals()

    def _tell(self, line: str, style: str = "$warning") -> None:
        told = Content.styled(printable(line), style) if line else Content.styled(KEYS[self._mode], "dim")
        self.query_one("#told", Static).update(told)

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
                self._detail(await self._shelf.diff(row), is_diff=True)
            elif self._shows == "why":
                self._detail(await self._shelf.why(row))
            else:
                text = await self._shelf.text(row)
                self._detail(f"{self._shelf.size(row, text)}\n\n{text}")
        except NacreError as error:
            self._tell(str(error), "$error")

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
        if self._mode == "entries":
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
        keep: Callable[[str], Awaitable[None]] = partial(self._shelf.keep, row, before)
        self.app.push_screen(Editor(row.file, before, keep), self._edited)

    async def _edited(self, is_kept: bool | None) -> None:
        await self._list("entries", "kept; u takes it back" if is_kept else "it is as it was")

    async def _to_edit(self) -> tuple[MemoryRow, str] | None:
        row = self.chosen
        if self._mode != "entries" or row is None:
            return None
        try:
            return row, await self._shelf.text(row)
        except NacreError as error:
            self._tell(str(error), "$error")
            return None

    async def action_edit_elsewhere(self) -> None:
        found = await self._to_edit()
        if found is None:
            return
        row, before = found
        try:
            after = self._in_editor(row, before)
        except NacreError as error:
            self._tell(str(error), "$error")
            return
        told = "it is as it was"
        if after != before:
            try:
                await self._shelf.keep(row, before, after)
                told = "kept; u takes it back"
            except NacreError as error:
                told = f"{error}; your text is in {put_aside(after.encode(), row.file)}"
        await self._list("entries", told)

    def _in_editor(self, row: MemoryRow, text: str) -> str:
        """Suspend the app while the editor uses the terminal."""
        with tempfile.TemporaryDirectory(prefix="nacre-") as folder:
            copy = Path(folder) / Path(row.file).name
            copy.write_text(text, encoding="utf-8")
            failed: NacreError | None = None
            try:
                with self.app.suspend():
                    # An error that left this block would leave the screen suspended.
                    try:
                        edited_by_hand(copy)
                    except NacreError as error:
                        failed = error
            except SuspendNotSupported:
                failed = ConfigError("this terminal cannot run an editor; press e to edit here")
            if failed is not None:
                raise failed
            return copy.read_text(encoding="utf-8", errors="replace")

    async def action_forget(self) -> None:
        if self._mode == "entries" and (row := self.chosen) is not None:
            await self._act(self._shelf.forget(row), "entries")

    async def action_undo(self) -> None:
        """In the history, undo the selected change; in the list, the newest of all."""
        row = self.chosen
        if self._mode == "changes" and row is not None:
            await self._act(self._shelf.take_back(row.memory, row.commit), "changes")
        elif self._mode == "entries":
            found = await self._shelf.newest()
            if found is None:
                self._tell("nothing was changed yet")
            else:
                await self._act(self._shelf.take_back(*found), "entries")

    async def action_accept(self) -> None:
        if self._mode == "proposals" and (row := self.chosen) is not None:
            await self._act(self._shelf.accept(row), "proposals")

    async def action_reject(self) -> None:
        if self._mode == "proposals" and (row := self.chosen) is not None:
            await self._act(self._shelf.reject(row), "proposals")

    async def _act(self, work: Awaitable[str], mode: Mode) -> None:
        try:
            told = await work
        except NacreError as error:
            self._tell(str(error), "$error")
            return
        await self._list(mode, told)
