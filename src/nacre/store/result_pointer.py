"""What stands for a result that is on disk: its size, its place, how to read it, how it begins (C4, C8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nacre import prompts
from nacre.store.tool_results import Kept

PERSISTED = prompts.load(__package__, "persisted")
PERSISTED_CUT = prompts.load(__package__, "persisted_cut")
"""The same for a result that its tool had cut: the file does not hold all of it."""
OPENING = PERSISTED.partition("\n")[0]
"""How every pointer begins."""
LONG_LINE_CHARS = 2_000
"""What Read shows of a line: of a longer one the rest needs another tool."""
BY_LINES = "Read it with Read (offset and limit choose the lines) or search it with Grep."
BY_PIECES = (
    f" It has lines of more than {LONG_LINE_CHARS:,} characters: take pieces of them in Bash with `cut -c`"
    " or `grep -o`."
)
AS_JSON = " It is a JSON list of the texts that the tool gave."


@dataclass(frozen=True, slots=True)
class Advice:
    """How the model is told to look into a file, by the tools that it has."""

    by_lines: str = BY_LINES
    by_pieces: str = BY_PIECES
    """Added where there are lines that Read would cut."""


USUAL = Advice()


def pointer(
    tool: str,
    texts: Sequence[str],
    kept: Kept,
    *,
    preview_bytes: int,
    advice: Advice = USUAL,
    cut: str | None = None,
) -> str:
    """The words that stand for these texts from now on.

    `cut` says how much of its result the tool returned, where that is not all.
    """
    is_list = len(texts) > 1
    by_pieces = advice.by_pieces * (is_list or has_long_line(texts[0]))
    template, more = (PERSISTED, {}) if cut is None else (PERSISTED_CUT, {"cut": cut})
    return prompts.render(
        template,
        **more,
        tool=tool,
        chars=f"{sum(map(len, texts)):,}",
        bytes=f"{kept.bytes:,}",
        path=str(kept.path),
        advice=advice.by_lines + AS_JSON * is_list + by_pieces,
        preview=preview(texts[0], preview_bytes),
    )


def preview(text: str, limit: int) -> str:
    """The first bytes of a text, cut at the last line end if that is past half, never inside a character."""
    head = text[:limit].encode(errors="surrogatepass")
    if len(head) > limit:
        end = limit
        while end and head[end] & 0xC0 == 0x80:  # the middle of a character
            end -= 1
        head = head[:end]
    shown = head.decode(errors="surrogatepass")
    line_end = head.rfind(b"\n")
    if len(shown) < len(text) and line_end > limit / 2:
        return head[:line_end].decode(errors="surrogatepass")
    return shown


def has_long_line(text: str) -> bool:
    """Whether Read would cut a line of this; looks only where a line must have ended by."""
    start = 0
    while len(text) - start > LONG_LINE_CHARS:
        end = text.rfind("\n", start, start + LONG_LINE_CHARS + 1)
        if end < 0:
            return True
        start = end + 1
    return False


CLEARED = "clear"
"""The kind of note, and the reason of the rewrite, by which a cleared result is recorded."""
KEPT = "[This old result was cleared to save room. Its full text is in {path}; read it there if you need it.]"


KEPT_CUT = (
    "[This old result was cleared to save room. What its tool returned, cut, is in {path};"
    " read it there if you need it.]"
)


def pointed_to(text: str) -> str | None:
    """The file that a cleared result names; none where its text could not be kept."""
    for sentence in (KEPT, KEPT_CUT):
        ahead, _, behind = sentence.partition("{path}")
        if text.startswith(ahead) and text.endswith(behind):
            return text[len(ahead) : -len(behind)]
    return None
