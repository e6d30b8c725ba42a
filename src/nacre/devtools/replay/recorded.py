"""Read recordings of any format as steps: input, time of the request, reply (P7, T7).

The recording's own compactions are left out: the text before them is in the log, and every policy compacts
for itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import dropwhile, pairwise
from pathlib import Path
from statistics import median

from nacre.cache.models import profile
from nacre.devtools.replay.schema import Recorded, ReplayStep
from nacre.errors import ForeignTranscript
from nacre.inspect.sources import SUFFIXES, open_source
from nacre.layers.l1_offload.offload import DUPLICATE, OFFLOAD, REREAD
from nacre.messages.blocks import Block, Text, ToolResult
from nacre.messages.foreign import ForeignSession, read_foreign
from nacre.messages.records import Noted, Record, ReplyFacts, Said, Undone
from nacre.messages.tokens import MAX_RATIO, MIN_RATIO, estimate_blocks, estimate_text
from nacre.messages.usage import Usage
from nacre.store.tool_results import FOLDER

ODD_SHARE = 0.1
"""Share ignored at either end for the ratio: a sum follows outliers, a median small talk."""
PACE = timedelta(seconds=20)
"""Time between two requests of a recording without times: short enough that its cache never expires."""
MIN_INCREMENT = 200
"""Estimated tokens between two requests below which the provider's fixed overheads hide the text."""
MAX_BASE = 60_000
"""Maximum tokens of an agent's system prompt and tools. A recording that begins in mid-conversation has more
in its first request; that text is not in the file, and no policy could shrink it."""
SYNTHETIC = "<synthetic>"
"""Model name of Claude Code for text that no model wrote, such as error messages."""


def read_recorded(path: Path) -> list[Recorded]:
    """Return every session of a file; raise `TranscriptError` with advice if it is not a transcript."""
    with open_source(path) as source:
        sessions = read_foreign(source.lines, name=path.name.removesuffix(".gz"))
    stem = path.name.removesuffix(".gz")
    for suffix in SUFFIXES:
        stem = stem.removesuffix(suffix)
    found: list[Recorded] = []
    for session in sessions:
        name = stem if len(sessions) == 1 else f"{stem}#{session.session_id[:8]}"
        read = recorded(session, name=name)
        steps, lost = _with_whole_results(read.steps, session.records, path)
        if steps:
            found.append(replace(read, steps=steps, lost_results=lost, paths=(str(path),)))
    if not found:
        raise ForeignTranscript(f"{path} holds no reply of a model to a message: there is nothing to replay")
    return found


FALLBACK_MODEL = "claude-sonnet-5-5"
"""Model for prices if neither the recordings nor the settings name one."""


def priced_model(sessions: Iterable[Recorded], configured: str | None) -> str:
    """Return the model of most sessions if it has a price, else the configured one."""
    ran = Counter(
        one.model
        for one in sessions
        if one.model and any(tier.input for tier in profile(one.model).prices)  # the embedded one is free
    )
    return ran.most_common(1)[0][0] if ran else configured or FALLBACK_MODEL


def recorded(session: ForeignSession, *, name: str) -> Recorded:
    """Return a loaded session as steps, with its base and the ratio of its estimates."""
    # A log can begin in the middle: a reply to nothing in the log cannot be requested.
    steps = tuple(dropwhile(lambda step: not step.starts_turn, _steps(session.records)))
    has_times = session.started is not None
    if not has_times:
        steps = tuple(replace(step, at=steps[0].at + PACE * place) for place, step in enumerate(steps))
    ratio = _ratio(steps)
    models = Counter(facts.model for step in steps if (facts := step.reply.reply) and facts.model)
    # Some recordings hold the base's text instead of a figure.
    notes = [one for one in session.records if isinstance(one, Noted) and one.kind == "system_prompt"]
    prompt = sum(estimate_text(str(note.fact("text") or "")) for note in notes[:1])
    # Streams are often recorded with their first count: the output is at least the estimate of the text.
    outputs = (max(step.output_tokens, round(_estimate(step.reply) * ratio)) for step in steps)
    return Recorded(
        name=name,
        steps=tuple(replace(step, output_tokens=out) for step, out in zip(steps, outputs, strict=True)),
        base_tokens=_base(steps, ratio) or prompt,
        ratio=ratio,
        error=_error(steps, ratio),
        model=models.most_common(1)[0][0] if models else None,
        peak_tokens=max((_usage(step).prompt for step in steps), default=0),
        has_times=has_times,
    )


def _steps(records: Iterable[Record]) -> Iterator[ReplayStep]:
    """Return one step per reply; results that came while it still streamed belong to the next step."""
    heard: list[Said] = []
    later: list[Said] = []
    parts: list[Said] = []
    last: datetime | None = None
    for said in _said(records):
        if said.role != "assistant":
            (later if parts else heard).append(said)
        elif parts and ((known := _reply_id(said)) or not later) and known == _reply_id(parts[-1]):
            parts.append(said)
        else:
            if parts:
                step = _step(heard, parts, last)
                yield step
                last = step.at
                heard = later
                later = []
            parts = [said]
    if parts:
        yield _step(heard, parts, last)


def _said(records: Iterable[Record]) -> list[Said]:
    """Return what finally reached the model: nothing set aside, undone or written by no model."""
    everything = list(records)
    undone = {record.target for record in everything if isinstance(record, Undone)}
    return [
        record
        for record in everything
        if isinstance(record, Said)
        and record.aside is None
        and record.id not in undone
        and not (record.reply and record.reply.model == SYNTHETIC)
    ]


def _reply_id(said: Said) -> str | None:
    return said.reply.id if said.reply else None


def _step(heard: Sequence[Said], parts: Sequence[Said], last: datetime | None) -> ReplayStep:
    first = parts[0]
    facts = first.reply or ReplyFacts()
    usages = [part.reply.usage for part in parts if part.reply and part.reply.usage]
    # A recording may repeat the usage on every record of a reply, or first report the first tokens only.
    usage = max(usages, key=lambda one: one.total, default=None)
    at = heard[-1].at if heard else first.at
    reply = Said(
        id=first.id,
        at=first.at,
        role="assistant",
        blocks=tuple(block for part in parts for block in part.blocks),
        reply=replace(facts, id=facts.id or f"reply-{first.id}", usage=usage),
    )
    return ReplayStep(
        at=at if last is None else max(at, last),
        heard=tuple(heard),
        reply=reply,
        output_tokens=usage.output if usage else 0,
        starts_turn=any(not isinstance(block, ToolResult) for said in heard for block in said.blocks),
    )


def _usage(step: ReplayStep) -> Usage:
    facts = step.reply.reply
    return (facts.usage if facts else None) or Usage()


def _estimate(*said: Said) -> int:
    return sum(estimate_blocks(one.blocks) for one in said)


def _ratio(steps: Sequence[ReplayStep]) -> float:
    """Return the ratio without outliers: a result shortened before it was recorded must not dominate."""
    # Estimated and real growth of the context between two requests, if both are known.
    growth = [
        (_estimate(before.reply, *step.heard), _usage(step).prompt - _usage(before).prompt)
        for before, step in pairwise(steps)
        if _usage(before).prompt
    ]
    found = [one for one in growth if one[0] >= MIN_INCREMENT and one[1] > 0]
    found.sort(key=lambda one: one[1] / one[0])
    odd = round(len(found) * ODD_SHARE)
    usual = found[odd : len(found) - odd]
    estimated, grown = (sum(column) for column in zip(*usual, strict=True)) if usual else (1, 1)
    return min(max(grown / estimated, MIN_RATIO), MAX_RATIO)


def _base(steps: Sequence[ReplayStep], ratio: float) -> int:
    """Return the tokens of the first request beyond its messages."""
    estimated = 0
    for step in steps:
        estimated += _estimate(*step.heard)
        if known := _usage(step).prompt:
            return min(max(0, known - round(estimated * ratio)), MAX_BASE)
        estimated += _estimate(step.reply)
    return 0


def _error(steps: Sequence[ReplayStep], ratio: float) -> float | None:
    """Return the error of the corrected estimate of the context, from a known context to the next break."""
    errors: list[float] = []
    context = 0.0
    for before, step in pairwise(steps):
        real = _usage(step).prompt
        was = _usage(before).prompt
        if not context:
            context = was
        context += _estimate(before.reply, *step.heard) * ratio
        if not real or real < was:
            context = real
        elif was:
            errors.append(abs(context - real) / real)
    return median(errors) if errors else None


def _with_whole_results(
    steps: Sequence[ReplayStep], records: Iterable[Record], log: Path
) -> tuple[tuple[ReplayStep, ...], int]:
    """Return the steps with whole results, and the number of results whose files are gone."""
    notes = {
        str(record.fact("call")): record
        for record in records
        if isinstance(record, Noted) and record.kind in {OFFLOAD, DUPLICATE, REREAD}
    }
    if not notes:
        return tuple(steps), 0
    work = _ResultRestorer(notes, log)
    return tuple(
        replace(step, heard=tuple(work.restored(said) for said in step.heard)) for step in steps
    ), work.lost


class _ResultRestorer:
    """Restores results in their order, because a later one may refer to an earlier one."""

    def __init__(self, notes: dict[str, Noted], log: Path) -> None:
        self._notes = notes
        self._log = log
        self._texts: dict[str, str] = {}
        """Whole texts by call id."""
        self.lost = 0

    def restored(self, said: Said) -> Said:
        return replace(said, blocks=tuple(self._block(block) for block in said.blocks))

    def _block(self, block: Block) -> Block:
        if not isinstance(block, ToolResult):
            return block
        whole = self._whole(block)
        self._texts[block.call_id] = block.text if whole is None else whole
        if whole is None:
            return block
        others = (part for part in block.content if not isinstance(part, Text))
        return replace(block, content=(Text(whole), *others))

    def _whole(self, result: ToolResult) -> str | None:
        note = self._notes.get(result.call_id)
        if note is None:
            return None
        if note.kind != OFFLOAD:
            earlier = self._texts.get(str(note.fact("of")))
            # For a file that was read again the log has only the changes: the earlier text and the changes
            # contain all its words.
            return f"{earlier}\n{result.text}" if earlier and note.kind == REREAD else earlier
        whole = _kept(Path(str(note.fact("path"))), self._log)
        self.lost += whole is None
        return whole


def _kept(path: Path, log: Path) -> str | None:
    """Return the content of a result's file: at its logged path or, in a moved home, next to the log."""
    beside = log.with_suffix("") / FOLDER / path.name
    places = [beside, *([path] if path.parent.name == FOLDER else [])]
    for place in places:
        try:
            text = place.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        return _joined(text) if place.suffix == ".json" else text
    return None


def _joined(wire: str) -> str:
    """Join the texts of a result stored as a list."""
    try:
        return "\n".join(str(part["text"]) for part in json.loads(wire))
    except (ValueError, TypeError, KeyError):
        return wire
