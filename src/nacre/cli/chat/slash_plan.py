"""`/plan`: show, set, edit or remove the plan of the session."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre.cli.output import print_error, printable
from nacre.errors import NacreError, StoreError

if TYPE_CHECKING:
    from nacre.context.plan import Plan

EDIT = "edit"
CLEAR = "clear"
Run = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine in the session's event loop and waits for it."""


def plan(planning: Plan, text: str, run: Run) -> None:
    """Apply the words after `/plan`; without any, show the plan."""
    try:
        now: str = run(planning.read())
    except StoreError as error:
        if text != CLEAR:
            raise
        print_error(f"{error}; it is removed now")
        now = CLEAR  # something is there, although nobody can read it
    if not text:
        hint = "there is no plan; /plan TEXT sets one, /plan edit opens your editor"
        for line in now.splitlines() if now.strip() else [hint]:
            print(printable(line))
    elif text == CLEAR:
        run(planning.write(""))
        print("the plan is removed" if now.strip() else "there was no plan")
    else:
        new = _edited(now) if text == EDIT else text
        if new.strip() == now.strip():
            print("the plan is unchanged")
            return
        _set(planning, new, run, is_edited=text == EDIT)


def _set(planning: Plan, text: str, run: Run, *, is_edited: bool) -> None:
    try:
        run(planning.write(text))
    except StoreError as error:
        from nacre.app.editor import put_aside

        kept = f", your text is in {put_aside(text.encode(), 'plan.md')}" if is_edited else ""
        raise StoreError(f"{error}; the plan is unchanged{kept}") from error
    if not text.strip():
        print("the plan is removed")
        return
    where = f" ({planning.path})" if planning.path else ""
    print(printable(f"the plan is set{where}; the model sees it with your next message"))


def _edited(text: str) -> str:
    """Return the text from the user's editor."""
    from nacre.app.editor import edited_by_hand

    with tempfile.TemporaryDirectory(prefix="nacre-") as folder:
        copy = Path(folder) / "plan.md"
        copy.write_text(text, encoding="utf-8")
        edited_by_hand(copy)
        try:
            return copy.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise NacreError(f"the edited file cannot be read: {error}; the plan is unchanged") from None
