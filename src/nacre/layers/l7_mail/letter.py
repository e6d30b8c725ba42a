"""A letter between agents, as a value and as one line of JSON; valid names of agents (A3b, A4)."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Final, Literal, TypeAlias, cast, get_args

from nacre.errors import MailError
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.untrusted_text import LOOKALIKES, UNSEEN
from nacre.messages.wire import canonical

Kind: TypeAlias = Literal[
    "text", "shutdown_request", "shutdown_response", "plan_approval_request", "plan_approval_response"
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
RESPONSES: Final = frozenset({"shutdown_response", "plan_approval_response"})

MAIN = "main"
"""The session itself."""
EVERYONE = "*"

MAX_TEXT_CHARS = 100_000
"""A longer text would fill the window of a small model; it belongs in a file whose path is sent."""
MAX_SUMMARY_CHARS = 200
"""A little more than one line of a terminal."""
MAX_LINE_BYTES = 1_048_576
"""The longest letter, with every character escaped to six bytes, and the other fields."""
MAX_NAME_CHARS = 64
MAX_NAME_BYTES = 200
"""Below the 255 bytes of common file systems, with room for suffixes."""
MAX_ADDRESS_CHARS = 300
"""Twice the longest path of a socket."""
RESERVED = frozenset({"user", "human", "person", "system", "assistant", "tool", "everyone", "all"})
"""Names under which a letter could be mistaken for the person's or the program's, or for all agents."""
OTHER = "other:"
"""Prefix of a sender in another session that gave no address to answer to."""
SCHEMES = ("uds:", "bridge:", OTHER)
TERMINAL = f"{OTHER}terminal"
"""The sender of a letter that a person writes with `nacre agents send` without naming a sender."""

_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?")
"""Names of devices on Windows."""
_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")
_BREAKS = {b"\xc2\x85": b"\\u0085", b"\xe2\x80\xa8": b"\\u2028", b"\xe2\x80\xa9": b"\\u2029"}
"""Characters that JSON does not escape although some readers treat them as line ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One message between agents."""

    id: str
    sender: str
    """A name in this session or team, or an address outside it."""
    to: str
    text: str
    """The text; of a request or response, the reason."""
    summary: str = ""
    """One line, for display."""
    kind: Kind = "text"
    approves: bool | None = None
    """Set for responses only."""
    answers: str = ""
    """The id of the letter that is answered; of a report, the last one that was received before it."""
    at: datetime


def written(letter: Letter) -> bytes:
    """Return the letter as one line of JSON; raises `MailError` if it is invalid."""
    sound = checked(letter)
    fields: JsonObject = {
        "id": sound.id,
        "at": sound.at.isoformat(),
        "from": sound.sender,
        "to": sound.to,
        "kind": sound.kind,
        "summary": sound.summary,
        "message": sound.text,
    }
    if sound.approves is not None:
        fields["approve"] = sound.approves
    if sound.answers:
        fields["answers"] = sound.answers
    line = canonical(fields)
    for sign, escaped in _BREAKS.items():
        line = line.replace(sign, escaped)
    return line + b"\n"


def parse(line: bytes) -> Letter:
    """Parse a line of JSON; raises `MailError` if it is not a valid letter."""
    if len(line) > MAX_LINE_BYTES:
        raise MailError(f"a line of {len(line):,} bytes is no letter; the longest has {MAX_LINE_BYTES:,}")
    try:
        fields = cast("Json", json.loads(line))
    except (ValueError, RecursionError):
        raise MailError("the line is not JSON; it was cut off or overwritten") from None
    if not isinstance(fields, dict):
        raise MailError("the line is JSON, but not an object")
    kind = fields.get("kind")
    approves = fields.get("approve")
    if approves is not None and not isinstance(approves, bool):
        raise MailError("`approve` is true or false")
    return checked(
        Letter(
            id=_word(fields, "id"),
            sender=_word(fields, "from"),
            to=_word(fields, "to"),
            text=_word(fields, "message"),
            summary=_word(fields, "summary", ""),
            kind=cast("Kind", kind if isinstance(kind, str) else repr(kind)),
            approves=approves,
            answers=_word(fields, "answers", ""),
            at=_moment(_word(fields, "at")),
        )
    )


def checked(letter: Letter) -> Letter:
    """Return the letter with its summary on one line; raises `MailError` if it is invalid."""
    if letter.kind not in KINDS:
        raise MailError(f"{letter.kind[:60]!r} is no kind of letter; there are {', '.join(KINDS)}")
    if not _ID.fullmatch(letter.id) or (letter.answers and not _ID.fullmatch(letter.answers)):
        raise MailError("an id has 1 to 100 letters, digits, dots, dashes and underscores")
    if letter.at.tzinfo is None:
        raise MailError("the time of a letter needs a time zone")
    if len(letter.text) > MAX_TEXT_CHARS:
        raise MailError(
            f"{len(letter.text):,} characters are too many for a letter (at most {MAX_TEXT_CHARS:,}); "
            "write them to a file and send its path"
        )
    _check_kind(letter)
    return replace(
        letter, sender=check_party(letter.sender), to=check_party(letter.to), summary=brief(letter.summary)
    )


def _check_kind(letter: Letter) -> None:
    is_response = letter.kind in RESPONSES
    if letter.kind == "text" and not letter.text.strip():
        raise MailError("a letter needs words; write what is to be said")
    if letter.kind == "plan_approval_request" and not letter.text.strip():
        raise MailError("a plan_approval_request needs the plan")
    if is_response and letter.approves is None:
        raise MailError(f"a {letter.kind} says `approve`: true or false")
    if not is_response and letter.approves is not None:
        raise MailError(f"only {' and '.join(sorted(RESPONSES))} take `approve`")
    if letter.approves is False and not letter.text.strip():
        raise MailError(f"a {letter.kind} that refuses says why; give a reason")


def check_party(name: str) -> str:
    """Return a valid sender or receiver: a name, or an address outside this session."""
    scheme = next((each for each in SCHEMES if name.startswith(each)), None)
    if scheme is None:
        return check_name(name)
    rest = name.removeprefix(scheme)
    if not rest or len(name) > MAX_ADDRESS_CHARS or not rest.isprintable():
        raise MailError(f"{name[:60]!r} is no address; one is printable and at most {MAX_ADDRESS_CHARS} long")
    return name


def check_name(name: str) -> str:
    """Return a valid name in Unicode NFC; strict, because it becomes a file name (M6)."""
    composed = unicodedata.normalize("NFC", name)
    if reason := _objection(composed):
        raise MailError(
            f"{name[:MAX_NAME_CHARS]!r} cannot be an agent's name: {reason}; take one such as reviewer-2"
        )
    return composed


@lru_cache(maxsize=1_024)
def _objection(name: str) -> str:
    plain = unicodedata.normalize("NFKC", name.translate(LOOKALIKES)).casefold()
    for reason, is_so in (
        ("it is empty", not name),
        (
            f"it is longer than {MAX_NAME_CHARS} characters or {MAX_NAME_BYTES} bytes",
            len(name) > MAX_NAME_CHARS or len(name.encode(errors="replace")) > MAX_NAME_BYTES,
        ),
        (
            "it holds something else than letters, digits, '-', '_' and '.'",
            not all(sign.isalnum() or sign in "-_." or _is_mark(sign) for sign in name),
        ),
        (
            "it contains look-alike or invisible characters",
            unicodedata.normalize("NFKC", name) != name or bool(UNSEEN.search(name)),
        ),
        ("it begins or ends with a dot", name[:1] == "." or name[-1:] == "."),
        ("it begins with a mark", _is_mark(name[:1] or "x")),
        ("it is a reserved name", plain in RESERVED or bool(_DEVICE.fullmatch(plain))),
        ("it could be taken for main", plain == MAIN and name != MAIN),
        ("it ends in .bad, as a file of its neighbour does", plain.endswith(".bad")),
    ):
        if is_so:
            return reason
    return ""


def _is_mark(sign: str) -> bool:
    # Vowel signs, which many scripts need.
    return unicodedata.category(sign) in {"Mn", "Mc"}


def brief(text: str) -> str:
    """Return the text as one line for display, cut at the limit."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text[:2_000]).split())
    return line if len(line) <= MAX_SUMMARY_CHARS else line[: MAX_SUMMARY_CHARS - 1].rstrip() + "…"


def _word(fields: JsonObject, name: str, default: str | None = None) -> str:
    found = fields.get(name, default)
    if not isinstance(found, str):
        raise MailError(f"`{name}` is missing or not text")
    return found


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise MailError("`at` is not a time such as 2026-01-31T12:00:00+00:00") from None
