"""What the provider clears at its end: declared once, or deleted from its cache by edits (C10, C11)."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.agents.fit import Pressure
from nacre.agents.layer import Layer
from nacre.agents.session import Session
from nacre.cache.rules import profile
from nacre.layers.l2_microcompact.declarative import DECLARED, declaration, declare, with_declaration
from nacre.layers.l2_microcompact.policy import NACRE, MicrocompactSettings
from nacre.layers.l2_microcompact.server_edits import EDIT, Edit, edit_due, queue, with_edits
from nacre.messages.blocks import JsonObject, ToolResult
from nacre.messages.records import Record
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.settings import Settings


class Declaring(Layer):
    """Declares what the provider may clear; it moves no byte of the view."""

    log_kinds = {DECLARED: "last"}  # what the provider was told must be said again in every request

    def __init__(self, session: Session, settings: MicrocompactSettings = NACRE) -> None:
        self._session = session
        self._kept = [str(one["name"]) for one in session.base.tools if one["name"] not in settings.tools]

    def can_shrink(self, view: View, pressure: Pressure) -> bool:
        return self._config(view, pressure) is not None

    async def shrink(self, view: View, pressure: Pressure) -> Sequence[Record]:
        """The note of what is declared from now on."""
        config = self._config(view, pressure)
        if config is None:
            return ()
        return (declare(config, self._session.clock, is_cold=pressure.warmth.is_cold),)

    def finish_request(self, request: Request, view: View) -> Request:
        return with_declaration(request, view)

    def _config(self, view: View, pressure: Pressure) -> JsonObject | None:
        return declaration(
            view,
            autocompact=pressure.thresholds.autocompact,
            kept_tools=self._kept,
            warmth=pressure.warmth,
            profile=pressure.profile,
        )


class Editing(Layer):
    """Has the provider delete old results from its cache; a fork queues no edits of its own."""

    log_kinds = {EDIT: "drop"}  # an edit holds for the bytes it was sent with, and those are gone

    def __init__(
        self, session: Session, settings: MicrocompactSettings = NACRE, *, is_main: bool = True
    ) -> None:
        self._session = session
        self._settings = settings
        self._is_main = is_main
        self._looked = (-1, 0, 0)
        """Epoch, items and results when the view was last counted: only what is new is counted again."""

    def can_shrink(self, view: View, pressure: Pressure) -> bool:
        if not (self._is_main and pressure.profile.server_edits):
            return False
        return self._results(view) > self._settings.server_after and self._edit(view) is not None

    async def shrink(self, view: View, pressure: Pressure) -> Sequence[Record]:
        """The note of the edit, which every request carries from now on."""
        edit = edit_due(view, self._settings)
        if edit is None:
            return ()
        count = len(edit.calls)
        self._session.notify(
            f"Had the provider delete {count} old tool result{'s' * (count != 1)} "
            f"(about {edit.tokens:,} tokens) from its cache; the session's log still has them."
        )
        self._session.expect_fewer_reads()
        self._looked = (-1, 0, 0)
        return (queue(edit, self._session.clock),)

    def finish_request(self, request: Request, view: View) -> Request:
        return with_edits(request, view)

    def _edit(self, view: View) -> Edit | None:
        found = edit_due(view, self._settings)
        if found is None:
            # So many can have come together again at the earliest after as many new results.
            epoch, items, _ = self._looked
            self._looked = (epoch, items, 0)
        return found

    def _results(self, view: View) -> int:
        epoch, items, results = self._looked
        if epoch != len(view.epochs):
            items = results = 0
        new = view.items[items:]
        results += sum(isinstance(one.block, ToolResult) for item in new for one in item.parts)
        self._looked = (len(view.epochs), items + len(new), results)
        return results


def clears_there(session: Session, settings: Settings) -> bool:
    """Whether the provider clears anything at its end: switched on, and every model asked takes it."""
    switches, named = settings.switches, settings.fallback_model
    is_able = session.profile.server_edits and (named is None or profile(named).server_edits)
    return is_able and (switches.clear_declared or switches.clear_server)


def join_declared_clearing(session: Session, settings: Settings) -> None:
    """Declare to the provider what it may clear, if that is switched on and every model takes it."""
    if clears_there(session, settings) and settings.switches.clear_declared:
        session.layers.append(Declaring(session, settings.microcompact))


def join_server_edits(session: Session, settings: Settings) -> None:
    """Let the provider delete old results from its cache, if that is switched on and every model takes it."""
    if clears_there(session, settings) and settings.switches.clear_server:
        session.layers.append(Editing(session, settings.microcompact))
