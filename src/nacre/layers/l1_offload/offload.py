"""Replace large results of a round before they are recorded; a recorded result never changes (C4 to C8).

Fresh is what comes in here; what goes out is recorded as it is and frozen, so that the three states of a
result need no bookkeeping: a resumed session and a fork read the same bytes from the log (C6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from nacre.errors import StoreError
from nacre.layers.l1_offload.policy import FreshResult, OffloadSettings, choose, threshold
from nacre.layers.l1_offload.references import (
    ResultsInView,
    ShownTexts,
    WholeResult,
    changes,
    chars_of,
    extent_of,
    only_text,
)
from nacre.messages.blocks import Block, Document, Image, JsonObject, ResultPart, Text, ToolCall, ToolResult
from nacre.messages.media import media_bytes, media_facts
from nacre.messages.records import Said
from nacre.messages.results import cut_of
from nacre.messages.tokens import BYTES_PER_TOKEN, estimate_block, estimate_text
from nacre.messages.wire import canonical
from nacre.store.tool_results import USUAL, Advice, ToolResultStore, pointer

OFFLOAD = "offload"
"""The kind of note about a result on disk: call, tool, reason, path, chars, bytes, tokens_kept_out."""
DUPLICATE = "duplicate"
"""The kind of note about a result that is the same as an earlier one: call, tool, of, chars, tokens_kept_out.

What it refers to must stand as long as the reference does, or both must be cleared together (C7).
"""
REREAD = "reread"
"""The kind of note about a file read again, of which only the changes are shown: as for a duplicate."""
SHOWN_INPUT_CHARS = 80
"""Characters of the earlier call's input that a reference quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadAction:
    """One replaced result."""

    kind: str
    facts: JsonObject
    notice: str
    """Notice for the user: what is not shown, and its path."""


@dataclass(frozen=True, slots=True)
class Offloaded:
    """The record to write, with the changes made to it."""

    said: Said
    acts: tuple[OffloadAction, ...] = ()
    refused: str = ""
    """Why a file could not be written; the result is recorded whole then."""


@dataclass(slots=True)
class _Offloading:
    """State while the results of one round are processed."""

    seen: ResultsInView
    settings: OffloadSettings
    own: Mapping[str, float]
    advice: Advice
    fresh: ShownTexts = field(default_factory=ShownTexts)
    """Texts that this record will hold whole."""
    targets: set[str] = field(default_factory=set)
    """Calls of this record to which another of its results refers."""
    acts: list[OffloadAction] = field(default_factory=list)
    refused: str = ""

    def call(self, result: ToolResult) -> ToolCall:
        return self.seen.call(result.call_id) or ToolCall(result.call_id, "tool", {})

    def limit(self, call: ToolCall) -> float:
        return threshold(call.name, self.settings, own=self.own.get(call.name))


def offload(
    said: Said,
    seen: ResultsInView,
    store: ToolResultStore,
    settings: OffloadSettings,
    *,
    own: Mapping[str, float] | None = None,
    advice: Advice = USUAL,
) -> Offloaded:
    """Return the record with its results replaced; `seen` must be up to date with the view.

    `own` holds what tools say of themselves, by name (C4); `advice` goes by the tools that the model has.
    What the disk refuses stays whole.
    """
    work = _Offloading(seen, settings, own or {}, advice)
    blocks = [_referred(one, work) if isinstance(one, ToolResult) else one for one in said.blocks]
    if store.folder is not None:
        for place in _chosen(blocks, work):
            result = blocks[place]
            assert isinstance(result, ToolResult), "only results are chosen"
            blocks[place] = _persisted(result, work, store)
    blocks = _with_media_that_fits(blocks, work, store)
    if tuple(blocks) == said.blocks:
        return Offloaded(said, refused=work.refused)
    return Offloaded(replace(said, blocks=tuple(blocks)), tuple(work.acts), work.refused)


def is_large(said: Said, settings: OffloadSettings, own: Mapping[str, float]) -> bool:
    """Return whether a result may have to be written to disk, which belongs into a thread."""
    least = min([settings.max_chars, settings.round_chars, *settings.per_tool.values(), *own.values()])
    return sum(chars_of(one) for one in said.blocks if isinstance(one, ToolResult)) > least


def _referred(result: ToolResult, work: _Offloading) -> ToolResult:
    """Return the result, or one line if it is empty or equals a result in view."""
    call = work.call(result)
    # `strip` would copy a text of two gigabytes.
    if all(isinstance(part, Text) and (not part.text or part.text.isspace()) for part in result.content):
        words = "failed without saying why" if result.is_error else "finished without output"
        return replace(result, content=(Text(f"[{call.name} {words}.]"),))
    text = only_text(result)
    least = work.settings.min_duplicate_bytes
    if text is None or len(text) > work.limit(call):
        return result
    if len(text) < least and len(text.encode(errors="surrogatepass")) < least:
        return result
    told = _read_again(call, result, text, work) or _same(call, result, text, work)
    if told is None or estimate_text(told[0]) >= estimate_text(text):
        work.fresh.add(call, result)
        return result
    words, earlier, notice = told
    kind = DUPLICATE if earlier.text == text else REREAD
    work.targets.add(earlier.call.id)
    facts: JsonObject = {
        "call": call.id,
        "tool": call.name,
        "of": earlier.call.id,
        "chars": len(text),
        "tokens_kept_out": estimate_text(text) - estimate_text(words),
    }
    work.acts.append(OffloadAction(kind=kind, facts=facts, notice=notice))
    return replace(result, content=(Text(words),))


_Reference = tuple[str, WholeResult, str]
"""Text for the model, the call it refers to, text for the user."""


def _read_again(call: ToolCall, result: ToolResult, text: str, work: _Offloading) -> _Reference | None:
    extent = extent_of(call.input) if call.name == "Read" and work.settings.rereads else None
    if extent is None or result.is_error:
        return None
    earlier = work.fresh.reads.get(extent) or work.seen.texts.reads.get(extent)
    found = None if earlier is None else changes(earlier.text, text)
    if earlier is None or found is None:
        return None
    name = f"Read of {extent[0]} ({earlier.call.id})"
    if earlier.text == text:
        words = f"[Unchanged: the text of the earlier {name} still stands, line by line.]"
        notice = f"Read of {extent[0]}: unchanged; the earlier text stands."
    else:
        words = (
            f"[The text of the earlier {name} still stands, but for what follows; "
            f"lines are numbered as they are now.]\n{found.text}"
        )
        lines = f"{found.lines:,} changed line{'s' * (found.lines != 1)}"
        notice = f"Read of {extent[0]}: only {lines} shown; the earlier text stands."
    return words, earlier, notice


def _same(call: ToolCall, result: ToolResult, text: str, work: _Offloading) -> _Reference | None:
    key = (text, result.is_error)
    earlier = work.seen.texts.same.get(key) or work.fresh.same.get(key)
    if earlier is None:
        return None
    asked = canonical(earlier.call.input).decode()
    asked = asked if len(asked) <= SHOWN_INPUT_CHARS else f"{asked[:SHOWN_INPUT_CHARS]}…"
    state = "in full" if cut_of(call.name, result) is None else "as the tool cut it"
    words = (
        f"[The same {len(text):,} characters as the result of the earlier call {earlier.call.name} {asked} "
        f"({earlier.call.id}), which stands {state}.]"
    )
    notice = (
        f"{call.name} result of {len(text):,} characters is the same as an earlier one; a line refers to it."
    )
    return words, earlier, notice


def _with_media_that_fits(blocks: list[Block], work: _Offloading, store: ToolResultStore) -> list[Block]:
    """Replace the pictures and documents beyond the limit of the round by a line with their path."""
    room = work.settings.image_tokens
    is_first = True
    shown: list[Block] = []
    for block in blocks:
        if not isinstance(block, ToolResult) or all(isinstance(part, Text) for part in block.content):
            shown.append(block)
            continue
        parts: list[ResultPart] = []
        for number, part in enumerate(block.content, start=1):
            if isinstance(part, Image | Document):
                tokens = estimate_block(part)
                room -= tokens
                if room < 0 and not is_first and media_bytes(part):  # one at an address stays
                    parts.append(_kept_media(block, part, number, work, store))
                    continue
                is_first = False
            parts.append(part)
        shown.append(replace(block, content=tuple(parts)))
    return shown


def _kept_media(
    result: ToolResult, part: Image | Document, number: int, work: _Offloading, store: ToolResultStore
) -> Text:
    """Write a picture or document to disk and return the line that takes its place."""
    call = work.call(result)
    about = media_facts(part).text
    try:
        kept = store.keep_media(result.call_id, part, number)
    except StoreError as error:
        return Text(f"[{about}, left out: too many pictures at once, and it could not be kept ({error})]")
    words = f"[{about}, not shown here because there are many at once; Read shows it: {kept.path}]"
    facts: JsonObject = {
        "call": result.call_id,
        "tool": call.name,
        "reason": "round",
        "path": str(kept.path),
        "chars": 0,
        "bytes": kept.bytes,
        "tokens_kept_out": max(0, estimate_block(part) - estimate_text(words)),
    }
    notice = f"{call.name} result: {about}, kept in {kept.path}."
    work.acts.append(OffloadAction(kind=OFFLOAD, facts=facts, notice=notice))
    return Text(words)


def _chosen(blocks: Iterable[object], work: _Offloading) -> list[int]:
    """Return the indexes of the results that go to disk."""
    places = []
    fresh = []
    for place, one in enumerate(blocks):
        if isinstance(one, ToolResult):
            places.append(place)
            limit = work.limit(work.call(one))
            if one.is_error:
                limit = max(limit, work.settings.max_error_chars)
            may_go = one.call_id not in work.targets
            fresh.append(FreshResult(chars=chars_of(one), limit=limit, may_go=may_go))
    chosen = choose(fresh, work.settings, recorded_chars=work.seen.round_chars)
    return [places[each] for each in sorted(chosen)]


def _persisted(result: ToolResult, work: _Offloading, store: ToolResultStore) -> ToolResult:
    """Write the texts of a result to disk and return it with a pointer; images stay inline."""
    call = work.call(result)
    text = result.text
    cut = cut_of(call.name, result)
    whole = store.whole_of(result)
    try:
        kept = whole or store.keep(result.call_id, text)
    except StoreError as error:
        work.refused = str(error)
        return result
    words = pointer(
        call.name,
        text,
        kept,
        preview_bytes=work.settings.preview_bytes,
        advice=work.advice,
        cut=cut,
    )
    chars = chars_of(result)
    # Encoding a long non-ASCII text again only to count its bytes would be slow.
    is_counted = whole is not None or text.isascii()
    tokens = estimate_text(text) if is_counted else -(-kept.bytes // BYTES_PER_TOKEN)
    facts: JsonObject = {
        "call": result.call_id,
        "tool": call.name,
        "reason": "size" if chars > work.limit(call) else "round",
        "path": str(kept.path),
        "chars": whole.chars if whole else chars,
        "bytes": kept.bytes,
        "tokens_kept_out": max(0, tokens - estimate_text(words)),
    }
    returned = f"{chars:,} characters" if cut is None else f"{chars:,} characters, cut by the tool,"
    if whole is not None:
        returned = f"{whole.bytes:,} bytes" if whole.missing else f"{whole.chars:,} characters"
    notice = (
        f"{call.name} result of {returned} kept in {kept.path}; "
        f"its first {work.settings.preview_bytes:,} bytes are shown."
    )
    work.acts.append(OffloadAction(kind=OFFLOAD, facts=facts, notice=notice))
    others = (part for part in result.content if not isinstance(part, Text))
    content: tuple[ResultPart, ...] = (Text(words), *others)
    return replace(result, content=content)
