"""A recorded session as it would have gone with nacre's own tools, whose results are shorter (P7).

Large files are shown as pages. A reply that used lines which a page does not show is preceded by one more
request, in which these lines are read; from then on they are part of the conversation. So pages are never
free: what was used is paid for, when it is fetched and as long as it is carried.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nacre.devtools.replay.run import Need, Pair, facts_of, needs
from nacre.devtools.replay.schema import Recorded, ReplayStep
from nacre.layers.l1_offload.references import READER, ReadPage, page_of
from nacre.messages.blocks import Block, Text, ToolCall, ToolResult
from nacre.messages.records import ReplyFacts, Said
from nacre.messages.tokens import estimate_blocks
from nacre.messages.wire import render_block
from nacre.tools.read import ReadSettings, page_of_file
from nacre.tools.shown_lines import join
from nacre.tools.squeeze import BETWEEN, FoundLine, by_file, fold_repeats, without_escapes

AROUND_LINES = 80
"""How many lines before and after those that are needed a model reads: a few functions."""
LEAST_LINES = 200
"""Lines of every page that a model reads in any case: it may need more than the names that it repeats."""
_FOUND = re.compile(r"(.+?):(\d+):")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTools:
    """What of nacre's tools is applied to a recording."""

    read: ReadSettings = field(default_factory=ReadSettings)
    squeezes: bool = True
    """Whether results of Read, Grep and Bash get nacre's shorter form."""
    around: int = AROUND_LINES
    least_lines: int = LEAST_LINES
    """Lines that are read of every page before the next reply, whether it used them or not."""


def with_own_tools(session: Recorded, tools: OwnTools) -> Recorded:
    """Return the session with shorter results and the requests that fetch what they do not show."""
    work = _Rewriter(tools, session.ratio)
    steps = [
        one for step, need in zip(session.steps, needs(session), strict=True) for one in work.step(step, need)
    ]
    return replace(session, steps=tuple(steps))


@dataclass(frozen=True, slots=True)
class _PagedFile:
    """A file of which the conversation has only a page."""

    path: str
    lines: Sequence[str]
    text: str
    """The lines, joined."""
    pairs: Mapping[Pair, int]
    """The line of each pair of names."""


class _Rewriter:
    """Rewrites the steps of one session in order."""

    def __init__(self, tools: OwnTools, ratio: float) -> None:
        self._tools = tools
        self._ratio = ratio
        self._calls: dict[str, ToolCall] = {}
        self._files: list[_PagedFile] = []
        self._pairs: set[Pair] = set()
        self._texts: list[str] = []
        self._fetches = 0
        self._new: list[int] = []
        """Files that were paged since the last reply."""

    def step(self, step: ReplayStep, need: Need) -> Iterator[ReplayStep]:
        heard = tuple(replace(said, blocks=tuple(map(self._rewritten, said.blocks))) for said in step.heard)
        self._show(block for said in heard for block in said.blocks)
        missing = self._missing(need)
        if missing:
            asked, answer = self._fetch(missing, step)
            tokens = round(estimate_blocks(asked.blocks) * self._ratio)
            yield replace(step, heard=heard, reply=asked, output_tokens=tokens, is_added=True)
            self._show([*asked.blocks, *answer.blocks])
            yield replace(step, heard=(answer,), starts_turn=False)
        else:
            yield replace(step, heard=heard)
        self._show(step.reply.blocks)
        self._calls |= {block.id: block for block in step.reply.blocks if isinstance(block, ToolCall)}

    def _show(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            facts = facts_of(render_block(block))
            self._pairs |= facts.pairs
            self._texts.append(facts.text)

    def _rewritten(self, block: Block) -> Block:
        if not isinstance(block, ToolResult) or len(block.content) != 1 or block.call_id not in self._calls:
            return block
        (part,) = block.content
        if not isinstance(part, Text):
            return block
        call = self._calls[block.call_id]
        text = part.text
        if call.name == READER and not block.is_error and (page := page_of(text)) is not None:
            text = self._paged(call, page) or (_renumbered(page) if self._tools.squeezes else text)
        elif self._tools.squeezes:
            text = _squeezed(call, text)
        return replace(block, content=(replace(part, text=text),))

    def _paged(self, call: ToolCall, page: ReadPage) -> str | None:
        path = call.input.get("file_path")
        is_range = call.input.get("offset") is not None or call.input.get("limit") is not None
        if is_range or page.first != 1 or not isinstance(path, str) or not self._tools.read.page_chars:
            return None
        answer = page_of_file(path, page.lines, self._tools.read)
        if answer is None:
            return None
        pairs: dict[Pair, int] = {}
        for number, line in enumerate(page.lines, 1):
            facts = facts_of({"type": "text", "text": line})
            pairs |= dict.fromkeys(facts.pairs, number)
        self._new.append(len(self._files))
        self._files.append(_PagedFile(path, page.lines, "\n".join(page.lines), pairs))
        return answer.text if page.remark is None else f"{answer.text}\n{page.remark}"

    def _missing(self, need: Need) -> Mapping[int, list[tuple[int, int]]]:
        """Return which lines of which paged files a reply used that were not shown yet."""
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for pair, _ in need.pairs:
            if pair in self._pairs:
                continue
            for place in range(len(self._files) - 1, -1, -1):
                if (line := self._files[place].pairs.get(pair)) is not None:
                    found[place].append((line, line))
                    break
        for text, _ in need.edits:
            for place in range(len(self._files) - 1, -1, -1):
                at = self._files[place].text.find(text)
                if at >= 0 and not any(text in shown for shown in reversed(self._texts)):
                    first = self._files[place].text.count("\n", 0, at) + 1
                    found[place].append((first, first + text.count("\n")))
                    break
        for place in self._new if self._tools.least_lines else ():
            middle = len(self._files[place].lines) // 2
            half = max(0, self._tools.least_lines // 2 - self._tools.around)
            found[place].append((max(1, middle - half), middle + half))
        self._new.clear()
        return found

    def _fetch(self, missing: Mapping[int, list[tuple[int, int]]], step: ReplayStep) -> tuple[Said, Said]:
        """Return the reply that reads these lines, and the results."""
        calls: list[ToolCall] = []
        results: list[ToolResult] = []
        for place, ranges in missing.items():
            file = self._files[place]
            around = self._tools.around
            wide = ((max(1, first - around), min(len(file.lines), last + around)) for first, last in ranges)
            for first, last in join(wide):
                self._fetches += 1
                call_id = f"fetch-{self._fetches}"
                limit = last - first + 1
                calls.append(
                    ToolCall(call_id, READER, {"file_path": file.path, "offset": first, "limit": limit})
                )
                rows = (f"{n}\t{file.lines[n - 1]}" for n in range(first, last + 1))
                results.append(ToolResult(call_id, (Text("\n".join(rows)),)))
        asked = Said(
            id=f"asked-{self._fetches}",
            at=step.at,
            role="assistant",
            blocks=tuple(calls),
            reply=ReplyFacts(id=f"reply-asked-{self._fetches}"),
        )
        answer = Said(id=f"answer-{self._fetches}", at=step.at, role="user", blocks=tuple(results))
        return asked, answer


def _renumbered(page: ReadPage) -> str:
    rows = [f"{number}\t{line}" for number, line in enumerate(page.lines, page.first)]
    return "\n".join(rows if page.remark is None else [*rows, page.remark])


def _squeezed(call: ToolCall, text: str) -> str:
    match call.name:
        case "Bash":
            return fold_repeats(without_escapes(text))
        case "Grep" if call.input.get("output_mode") == "content":
            return "\n".join(by_file(_found_lines(text)))
        case _:
            return text


def _found_lines(text: str) -> Iterator[FoundLine]:
    """Return the rows of another program's search; a row of unknown form keeps its form."""
    rows = text.split("\n")
    paths = {found[1] for row in rows if (found := _FOUND.match(row))}
    for row in rows:
        found = _FOUND.match(row)
        path = found[1] if found else next((one for one in paths if row.startswith(f"{one}-")), "")
        yield FoundLine(path, row[len(path) + 1 :] if path and row != BETWEEN else row)
