"""An index of the names in a part of a conversation: identifiers, paths and numbers, likeliest first (C20b).

Everything is derived from the items, so that the same conversation always gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from os.path import commonpath

from nacre.messages.blocks import Block, Json, Text, Thinking, ToolCall, ToolResult
from nacre.messages.pairing import Item
from nacre.messages.tokens import BYTES_PER_TOKEN

TITLE = "## Names"
HEAD = (
    "Names from what is not shown here, by the place where they occur, the likeliest to be needed first: a "
    "file; a call, whose result the log has; or what was said. They are a record, not a request."
)
BELOW = "The files are below {root}"
_BELOW = re.compile(r"The files are below (.+/)")
REMINDER = "<system-reminder>"
"""Begins text that the program adds, and adds again after a compaction."""
SAID = "said"
"""Place of names that no file or result has."""
CALL = "call "
"""Precedes the id of a call."""
LINE = "Names in it: "
"""Begins the line of names of a cleared result."""

_RUN = re.compile(r"[\w./~@+-]{3,}")
"""Characters of which names consist; everything else separates them."""
_NAME = re.compile(
    r"""
      (?:[\w.~@+-]*/)+[\w.@+-]*\w                  # a path
    | [^\W\d]\w*(?:\.\w+)+                         # a file, a dotted name
    | [^\W\d_]+_\w* | _+[^\W\d_]\w*                # snake_case
    | [A-Za-z]+[0-9]\w*                            # a name with digits
    | [a-z]+[A-Z]\w* | [A-Z]+[a-z0-9]+[A-Z]\w*     # camelCase
    | [0-9]{3,}                                    # a number
    """,
    re.VERBOSE,
)
_PLAIN_PATH = re.compile(r"/+[\w-]+|/*[^\W\d_]+/[^\W\d_]+")
"""A closing tag or a command, and two words with a slash between them, such as "and/or"."""
_LINE = re.compile(r"(\.[A-Za-z]\w*)-[0-9]+(?:-\w*)?$")
"""The number of a line behind the name of its file, as grep writes it for context."""
FILE_ENDINGS = frozenset(
    "c cc cfg conf cpp cs css csv go h hpp html ini java jpg js json jsonl jsx kt lock log lua md mod patch "
    "pdf php png proto py pyi rb rs rst scss sh sql sum svg swift toml ts tsx txt vue xml yaml yml".split()
)
"""Endings by which a dotted name of one case is a file and not a host."""
OWN_FILES = "/tool-results/"
"""Folder of results on disk; a call id says as much in fewer characters."""
MAX_NAME = 120
"""Characters of a name; longer ones are keys, hashes and encoded bytes."""
MAX_LABEL = 400
"""Characters of a path in front of its names."""
MAX_CHARS = 3_000_000
MAX_BLOCK_CHARS = 200_000
"""Characters of a conversation and of one text that are read, newest first, so that the time has a bound."""
LEAST_BYTES = 6
"""Room for one more short name."""
SHORT_CHARS = 300
"""An argument of a call up to this size names something; a longer one is text."""
LARGE_CHARS = 2_000
"""A text or result beyond this size is output, in which most names and nearly all numbers are incidental."""

IN_ARGUMENT = 4.0
IN_TEXT = 2.0
IN_OUTPUT = 1.0
"""Weight of one mention: in a short argument of a call, in a text or a longer argument, in other results."""
OLDEST = 0.5
"""Share of its weight that the oldest mention has; the newest has all of it."""


def index_of(
    items: Sequence[Item],
    tokens: int,
    *,
    shown: Iterable[Item] = (),
    texts: Iterable[str] = (),
    files: Mapping[str, str] | None = None,
) -> str:
    """Return the index of these items within a budget; empty if there is no room or no name.

    Names in `shown` and `texts` are left out. `files` has the path of each call that read or wrote a file.
    """
    if tokens * BYTES_PER_TOKEN <= len(HEAD):
        return ""
    found = _Mentions(files or {})
    for age, item in enumerate(reversed(items)):
        found.take(item, 1 - (1 - OLDEST) * age / len(items))
    seen = _Mentions({})
    for item in shown:
        seen.take(item, 1.0)
    for text in texts:
        seen.add(text)
    return _shown(found, {name for name, _ in seen.ranked()}, tokens)


def line_of_names(text: str, tokens: int, known: Set[str] = frozenset()) -> str:
    """Return a line with the most frequent names of a text within a budget; empty if there is no room."""
    counts: dict[str, int] = {}
    for run in _RUN.findall(text[:MAX_BLOCK_CHARS]):
        counts[run] = counts.get(run, 0) + 1
    scores: dict[str, int] = {}
    for run, count in counts.items():
        for name in _names(run):
            if not name.isdigit():
                scores[name] = scores.get(name, 0) + count
    room = tokens * BYTES_PER_TOKEN - len(LINE)
    chosen: list[str] = []
    for name in sorted(scores, key=lambda one: -scores[one]):
        size = _size(name) + 2
        if name in known or size > room:
            continue
        room -= size
        chosen.append(name)
    return LINE + ", ".join(chosen) if chosen else ""


def names_in(text: str) -> list[str]:
    """Return the names of a text, each once, in order."""
    runs = dict.fromkeys(_RUN.findall(text))
    return list(dict.fromkeys(name for run in runs for name in _names(run)))


def names_of(block: Block) -> list[str]:
    """Return the names in a text or in the arguments of a call."""
    match block:
        case ToolCall(_, _, arguments):
            return names_in("\n".join(_leaves(arguments)))
        case Text(text) | Thinking(text):
            return names_in(text)
        case _:
            return []


def _names(run: str) -> list[str]:
    if len(run) > MAX_NAME or "@" in run or (run.isalpha() and run.islower()):
        return []
    names = [_LINE.sub(r"\1", name) for name in _NAME.findall(run)] if "/" in run else _NAME.findall(run)
    return [
        name
        for name in names
        if not (_PLAIN_PATH.fullmatch(name) or OWN_FILES in name or _may_be_host(name))
        and (name == run or not name.isdigit())
    ]


def _may_be_host(name: str) -> bool:
    """Return whether a name can be an address on the net: one in a text that was read must not live on."""
    first = name.partition("/")[0] if not name.startswith("//") else name[2:].partition("/")[0]
    stem, dot, last = first.rpartition(".")
    if not dot or not stem.strip("."):
        return name.startswith("//")
    is_one_case = last.islower() or last.isupper()
    return "/" in name or (is_one_case and last.lower() not in FILE_ENDINGS)


class _Mentions:
    """Runs of characters in some items, with scores and places; newer items are taken first.

    Names are found in them only while there is room, because most runs of a long conversation are unique.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        self.scores: dict[str, float] = {}
        self._in_files: dict[str, str] = {}
        self._in_results: dict[str, str] = {}
        self._files = {call_id: file for call_id, file in files.items() if _is_label(file)}
        self._left = MAX_CHARS

    def take(self, item: Item, recency: float) -> None:
        for part in item.parts:
            match part.block:
                case ToolCall(call_id, _, arguments):
                    file = self._files.get(call_id, "")
                    for text in _leaves(arguments):
                        weight = IN_ARGUMENT if len(text) <= SHORT_CHARS else IN_TEXT
                        self.add(text, weight * recency, file=file)
                case ToolResult(call_id) as result:
                    file = self._files.get(call_id, "")
                    call = CALL + call_id if _is_label(call_id) else SAID
                    self.add(result.text, IN_OUTPUT * recency, file=file, call=call)
                case Text(text) if text.startswith(TITLE):
                    self._take_over(text, recency)
                case Text(text) if text.startswith(REMINDER):
                    pass
                case Text(text) | Thinking(text):
                    weight = IN_OUTPUT if len(text) > LARGE_CHARS else IN_TEXT
                    self.add(text, weight * recency)
                case _:
                    pass

    def ranked(self) -> Iterator[tuple[str, str]]:
        """Yield names, each once, with their runs: best first, and of equal ones the newer first."""
        seen: set[str] = set()
        for run in sorted(self.scores, key=self.scores.__getitem__, reverse=True):
            for name in _names(run):
                if name not in seen:
                    seen.add(name)
                    yield name, run

    def place(self, run: str) -> str:
        """Return where a run occurs: the newest file, else the newest result."""
        return self._in_files.get(run) or self._in_results.get(run) or SAID

    @property
    def root(self) -> str:
        """The directory, with a slash behind it, below which all files are; empty if there is none."""
        files = {*self._in_files.values()}
        if len(files) < 2 or not all(file.startswith("/") for file in files):
            return ""
        root = commonpath(files)
        return "" if root == "/" or root in files else f"{root}/"

    def add(self, text: str, weight: float = 1.0, *, file: str = "", call: str = "") -> None:
        text = text[: min(self._left, MAX_BLOCK_CHARS)]
        self._left -= len(text)
        runs: Iterable[str] = dict.fromkeys(_RUN.findall(text))
        if call and (file or len(text) > LARGE_CHARS):
            # Lines of a file have numbers, and long outputs consist of them.
            runs = (run for run in runs if not run.isdigit())
        place = file or call
        places = self._in_files if file else self._in_results
        scores = self.scores
        for run in runs:
            scores[run] = scores.get(run, 0.0) + weight
            if place:
                places.setdefault(run, place)

    def _take_over(self, text: str, recency: float) -> None:
        """Add the names of an earlier index, with their places."""
        lines = text.split("\n")
        root = next((one[1] for line in lines if (one := _BELOW.fullmatch(line))), "")
        for line in lines:
            if not line.startswith("- "):
                continue
            place, _, names = line[2:].partition(": ")
            is_file = place != SAID and not place.startswith(CALL)
            if is_file:
                file = root + place
                self.add(f"{file}\n{names}", IN_TEXT * recency, file=file)
            else:
                self.add(names, IN_TEXT * recency, call=place)


def _leaves(value: Json) -> Iterator[str]:
    """Yield every text in a call's arguments; a bare number is a line, a limit or a time."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)


def _shown(found: _Mentions, known: Set[str], tokens: int) -> str:
    """Return the unknown names that fit, by place; the place of the best name comes first."""
    below = found.root
    head = [TITLE, "", HEAD, *([BELOW.format(root=below)] if below else [])]
    room = tokens * BYTES_PER_TOKEN - sum(_size(line) + 1 for line in head)
    order = {run: number for number, run in enumerate(found.scores)}
    groups: dict[str, list[tuple[int, str]]] = {}
    for name, run in found.ranked():
        if room < LEAST_BYTES:
            break
        if name in known:
            continue
        place = found.place(run)
        label = place.removeprefix(below)
        is_label = name == place
        size = (0 if is_label else _size(name) + 2) + (0 if label in groups else _size(label) + 4)
        if size <= room:
            room -= size
            groups.setdefault(label, []).extend([] if is_label else [(order[run], name)])
    # In the order of their text, in which neighbours belong together.
    names = {label: ", ".join(name for _, name in sorted(some)) for label, some in groups.items()}
    lines = [f"- {label}: {some}" if some else f"- {label}" for label, some in names.items()]
    return "\n".join([*head, *lines]) if lines else ""


def _is_label(place: str) -> bool:
    """Return whether a path or id can stand in front of its names on one line."""
    return place.isprintable() and ": " not in place and 0 < len(place) <= MAX_LABEL


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
