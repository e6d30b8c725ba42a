"""Reads one word: quotes, escapes and expansions.

What can run a command or change a variable while it is expanded is not taken apart: it raises.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

from nacre.tools.shell.commands import NotParsedError, Word

BLANKS = " \t"
META = BLANKS + "\n;&|<>()"
"""Unquoted, each of these ends a word."""

_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])")
_BRACED = re.compile(
    # The word after an operator may hold nothing that is expanded again.
    r"\$\{(?:#?[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]"
    r"|[A-Za-z_][A-Za-z0-9_]*(?::?-|%%?|##?)[A-Za-z0-9_./*+ -]*)\}"
)
_ARITHMETIC = re.compile(r"\$\(\([0-9 +*/%-]*\)\)")
"""Digits only: a name in an expression is evaluated again, and its value may hold a command."""
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_QUOTED, _UNSURE, _EMPTY = "\0", "\1", "\2"
"""Control characters never reach the reader, so these cannot be mistaken for the user's own."""
_ANSI_PLAIN = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}


@dataclass(slots=True)
class _Draft:
    """A word while it is read."""

    text: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)
    """Unquoted characters in place; `_QUOTED`, `_UNSURE` and `_EMPTY` stand for the rest."""
    variable: bool = False
    splits: bool = False
    unsure: bool = False
    """Holds something whose value is not worked out here."""

    def add(self, text: str, *, quoted: bool) -> None:
        self.text.append(text)
        self.bare.append((_QUOTED * len(text) or _EMPTY) if quoted else text)

    def add_unsure(self, source: str) -> None:
        self.unsure = True
        self.text.append(source)
        self.bare.append(_UNSURE)


def read_word(source: str, start: int) -> tuple[Word, int]:
    """The word that begins at `start`, and where it ends."""
    draft = _Draft()
    at = start
    while at < len(source) and source[at] not in META:
        at = _read_piece(source, at, draft)
    return _finish(draft), at


def _read_piece(source: str, at: int, draft: _Draft) -> int:
    match source[at]:
        case "'":
            return _read_single_quoted(source, at, draft)
        case '"':
            return _read_double_quoted(source, at + 1, draft)
        case "\\":
            if source[at + 1 : at + 2] in ("", "\n"):
                raise NotParsedError("a line continued in the middle of a word")
            draft.add(source[at + 1], quoted=True)
            return at + 2
        case "`":
            raise NotParsedError("command substitution")
        case "$":
            return _read_dollar(source, at, draft)
        case character:
            draft.add(character, quoted=False)
            return at + 1


def _read_single_quoted(source: str, at: int, draft: _Draft) -> int:
    end = source.find("'", at + 1)
    if end < 0:
        raise NotParsedError("a quote that is not closed")
    draft.add(source[at + 1 : end], quoted=True)
    return end + 1


def _read_double_quoted(source: str, at: int, draft: _Draft) -> int:
    draft.add("", quoted=True)
    while at < len(source):
        character = source[at]
        following = source[at + 1 : at + 2]
        if character == '"':
            return at + 1
        if character == "`":
            raise NotParsedError("command substitution")
        if character == "\\" and following == "\n":
            raise NotParsedError("a line continued in the middle of a word")
        if character == "\\" and following and following in '$`"\\':
            draft.add(following, quoted=True)
            at += 2
        elif character == "$" and following not in ("'", '"'):
            at = _read_dollar(source, at, draft, quoted=True)
        else:
            draft.add(character, quoted=True)
            at += 1
    raise NotParsedError("a quote that is not closed")


def _read_dollar(source: str, at: int, draft: _Draft, *, quoted: bool = False) -> int:
    match source[at + 1 : at + 2]:
        case "'":
            return _read_ansi_quoted(source, at + 2, draft)
        case '"':
            # Bash looks the text up in a catalogue of translations: what comes back is not ours to know.
            draft.add_unsure("")
            return _read_double_quoted(source, at + 2, draft)
        case "(":
            found = _ARITHMETIC.match(source, at)
            if not found:
                raise NotParsedError("command substitution")
        case "[":
            raise NotParsedError("an arithmetic expression")
        case "{":
            found = _BRACED.match(source, at)
            if not found:
                raise NotParsedError("a parameter expansion that may assign or evaluate")
        case "\\" if source[at + 2 : at + 3] == "\n":
            raise NotParsedError("a line continued in the middle of a word")
        case _:
            found = _VARIABLE.match(source, at)
            if not found:
                draft.add("$", quoted=quoted)
                return at + 1
    draft.add_unsure(found[0])
    draft.variable = True
    # "$@" becomes as many words as there are arguments, even in quotes.
    draft.splits = draft.splits or not quoted or "@" in found[0]
    return found.end()


def _read_ansi_quoted(source: str, at: int, draft: _Draft) -> int:
    draft.add("", quoted=True)
    while at < len(source):
        character = source[at]
        if character == "'":
            return at + 1
        if character != "\\":
            draft.add(character, quoted=True)
            at += 1
            continue
        escape = source[at + 1 : at + 2]
        if escape in _ANSI_PLAIN:
            draft.add(_ANSI_PLAIN[escape], quoted=True)
        else:
            # Octal, hexadecimal, control: rare in honest commands, so they are left unread.
            draft.add_unsure("\\" + escape)
        at += 2
    raise NotParsedError("a quote that is not closed")


def _finish(draft: _Draft) -> Word:
    bare = "".join(draft.bare)
    text = "".join(draft.text)
    has_glob = "*" in bare or "?" in bare or ("[" in bare and "]" in bare)
    has_brace = "{" in bare and ("," in bare or ".." in bare)
    # Some systems split words at bytes of unquoted letters beyond ASCII.
    has_foreign = not bare.isascii()
    if has_foreign and any(
        unicodedata.category(character) == "Zs" and character != " " for character in bare
    ):
        raise NotParsedError("a blank that is not a space")
    has_tilde = bare.startswith("~") or "=~" in bare or ":~" in bare
    expands = draft.unsure or has_glob or has_brace or has_foreign or has_tilde
    splits = draft.splits or has_glob or has_brace or has_foreign
    return Word(
        text=text,
        is_literal=not expands,
        is_single=not splits,
        is_never_option=not draft.splits and not has_foreign and _begins_safely(text, bare),
        has_variable=draft.variable,
        is_assignment=bool(_ASSIGNMENT.match(bare)),
        is_bare=not ({_QUOTED, _UNSURE, _EMPTY} & set(bare)),
    )


def _begins_safely(text: str, bare: str) -> bool:
    """The first character is fixed, and is no dash."""
    first = bare.lstrip(_EMPTY)[:1]
    return first not in ("", _UNSURE, "*", "?", "[", "{") and not text.startswith("-")
