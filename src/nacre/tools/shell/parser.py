"""Takes a command line apart into simple commands.

Loops, conditions, functions and substitutions are not taken apart: an error names them.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field, replace

MAX_CHARS = 20_000
"""Longer than any useful read-only line, and short enough to parse at once."""

_OPERATORS = re.compile(
    r"&>>|&>|&&|&|\|\||\|&|\||;;&|;;|;&|;|<<<|<<-|<<|<&|<>|<\(|<|>>|>\||>&|>\(|>|\(\(|\(|\)|\n"
)
_REDIRECTIONS = frozenset({"&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">|", ">&", ">"})
_NAMED = {
    **dict.fromkeys(("<(", ">("), "process substitution"),
    **dict.fromkeys((";;", ";&", ";;&"), "a case statement"),
    "((": "an arithmetic expression",
}
_RESERVED = frozenset(
    "if then else elif fi for while until do done case esac select function time coproc [[ ]]".split()
)
_ELEMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
_ASSIGNING = frozenset({"alias", "declare", "eval", "export", "let", "local", "readonly", "typeset"})
_NAMED_DESCRIPTOR = re.compile(r"\{[^}]*\}")
_DELIMITER = re.compile(r"(?:'[A-Za-z0-9_]+'|\"[A-Za-z0-9_]+\"|[A-Za-z0-9_]+)")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Characters that are invisible or change the displayed order: the user would approve another line."""


_BLANK_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and symbols by category, but rendered as nothing."""


class NotParsedError(Exception):
    """Raised for a part that is not parsed; the message names it. Not raised outside of this package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellWord:
    """One word as written, after quotes are removed."""

    text: str
    """The argument that the program receives if the word is literal; otherwise close to the source."""
    is_literal: bool = True
    """The shell expands nothing in it."""
    is_single: bool = True
    """It becomes exactly one argument."""
    is_never_option: bool = False
    """Whatever it expands to, no argument made of it begins with a dash."""
    has_variable: bool = False
    """A parameter or an arithmetic expression is expanded in it."""
    is_assignment: bool = False
    """It has the form `name=…`, with the name and the sign unquoted."""
    is_bare: bool = False
    """No character of it was quoted, so that it may be a reserved word or a descriptor."""

    @property
    def is_tame(self) -> bool:
        """Whether it cannot expand to an option that is not written."""
        return self.is_literal or self.is_never_option


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirection:
    """One redirection; a here-document's target is its delimiter, and its text is not kept."""

    operator: str
    target: ShellWord
    descriptor: str = ""
    """The number written in front of the operator, if there is one."""

    def __str__(self) -> str:
        space = "" if self.operator.endswith("&") else " "
        return f"{self.descriptor}{self.operator}{space}{self.target.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleCommand:
    """One program with its arguments; redirections of a group around it are listed with its own."""

    words: tuple[ShellWord, ...] = ()
    assignments: tuple[str, ...] = ()
    redirections: tuple[Redirection, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        """The program and its arguments; empty for a bare assignment or redirection."""
        return tuple(word.text for word in self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A whole command line."""

    commands: tuple[SimpleCommand, ...]
    has_background: bool = False
    """A part of it is started with `&` and may outlive the rest."""


def parse(source: str) -> Script:
    """Parse a command line into its simple commands, in written order."""
    if len(source) > MAX_CHARS:
        raise NotParsedError(f"longer than {MAX_CHARS} characters")
    for character in source:
        if character in "\t\n" or " " <= character <= "~":
            continue
        if unicodedata.category(character) in _UNSEEN or character in _BLANK_LETTERS:
            raise NotParsedError(f"an invisible character: U+{ord(character):04X}")
    return _Parser(source).parse()


@dataclass(slots=True)
class _Heredoc:
    delimiter: str
    is_quoted: bool
    strips_tabs: bool


@dataclass(slots=True)
class _Parser:
    """One pass from left to right; open groups are in a list, so that depth needs no recursion."""

    source: str
    at: int = 0
    done: list[SimpleCommand] = field(default_factory=list)
    groups: list[tuple[str, int]] = field(default_factory=list)
    """For each group that is not closed yet, what closes it and the index of its first command."""
    heredocs: list[_Heredoc] = field(default_factory=list)
    words: list[ShellWord] = field(default_factory=list)
    assignments: list[str] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)
    closed_group: int | None = None
    """The first command of the group that was just closed: only redirections may follow it."""
    wants_command: bool = False
    """An operator or a `!` was read that needs a command after it."""
    has_background: bool = False

    def parse(self) -> Script:
        while self._skip_blanks():
            operator = _OPERATORS.match(self.source, self.at)
            if operator:
                self.at = operator.end()
                self._take_operator(operator[0])
            else:
                self._take_word()
        self._end_command()
        if self.groups or self.heredocs or self.wants_command:
            raise NotParsedError("a part that is not closed")
        return Script(commands=tuple(self.done), has_background=self.has_background)

    def _skip_blanks(self) -> bool:
        """Advance to the next token; False at the end."""
        source = self.source
        while self.at < len(source):
            if source[self.at] in BLANKS:
                self.at += 1
            elif source.startswith("\\\n", self.at):
                # Between blanks only: within a token the shell joins the parts.
                before = source[self.at - 1 : self.at]
                is_between = bool(before) and before in BLANKS and source[self.at + 2 : self.at + 3] != "#"
                if self.heredocs or not is_between:
                    raise NotParsedError("a line continued in the middle of a word")
                self.at += 2
            elif source[self.at] == "#":
                end = source.find("\n", self.at)
                self.at = len(source) if end < 0 else end
            else:
                return True
        return False

    def _take_operator(self, operator: str) -> None:
        if operator in _NAMED:
            raise NotParsedError(_NAMED[operator])
        if operator in _REDIRECTIONS:
            self._take_redirection(operator, "")
        elif operator == "(":
            if self._is_inside_command():
                raise NotParsedError("a function or an array")
            self._open_group(")")
        elif operator == ")":
            self._end_command()
            self._close_group(")")
        elif operator == "\n":
            # A newline is allowed between commands, but not between `!` and its command.
            if self._is_inside_command():
                self._end_command()
                self.wants_command = False
            self._read_heredocs()
        elif not self._is_inside_command():
            raise NotParsedError(f"nothing before {operator}")
        else:
            self._end_command()
            self.has_background = self.has_background or operator == "&"
            self.wants_command = operator in ("&&", "||", "|", "|&")

    def _is_inside_command(self) -> bool:
        return bool(self.words or self.assignments or self.redirections or self.closed_group is not None)

    def _take_word(self) -> None:
        start = self.at
        word, self.at = read_word(self.source, start)
        if self.heredocs and "\n" in self.source[start : self.at]:
            raise NotParsedError("a here-document next to a word of several lines")
        following = self.source[self.at : self.at + 1]
        if word.is_bare and following and following in "<>" and self._take_descriptor(word):
            return
        if self.closed_group is not None:
            raise NotParsedError("a word after a closed group")
        if not self._is_inside_command() and word.is_bare and self._take_reserved(word.text):
            return
        # There the shell reads `name[` up to its closing bracket, blanks and all.
        if _ELEMENT.match(word.text) and (not self.words or self.words[0].text in _ASSIGNING):
            raise NotParsedError("an element of an array")
        if not self.words and word.is_assignment:
            self.assignments.append(word.text)
        else:
            self.words.append(word)
        self.wants_command = False

    def _take_descriptor(self, word: ShellWord) -> bool:
        if _NAMED_DESCRIPTOR.fullmatch(word.text):
            raise NotParsedError("a redirection that sets a variable")
        if not (word.text.isascii() and word.text.isdigit()):
            return False
        if len(word.text) > 1:
            # The shell takes a number that is too large for an argument.
            raise NotParsedError(f"an unusual descriptor: {word.text}")
        operator = _OPERATORS.match(self.source, self.at)
        if operator is None or operator[0] not in _REDIRECTIONS:
            raise NotParsedError("process substitution")
        self.at = operator.end()
        self._take_redirection(operator[0], word.text)
        return True

    def _take_reserved(self, text: str) -> bool:
        if text in _RESERVED:
            raise NotParsedError(f"a compound command: {text}")
        if text == "{":
            self._open_group("}")
        elif text == "}":
            self._close_group("}")
        elif text == "!":
            self.wants_command = True
        else:
            return False
        return True

    def _open_group(self, closer: str) -> None:
        self.groups.append((closer, len(self.done)))
        self.wants_command = True

    def _close_group(self, closer: str) -> None:
        if not self.groups or self.groups[-1][0] != closer or self.wants_command:
            raise NotParsedError(f"an unexpected {closer}")
        self.closed_group = self.groups.pop()[1]

    def _take_redirection(self, operator: str, descriptor: str) -> None:
        if not self._skip_blanks():
            raise NotParsedError("a redirection to nowhere")
        start = self.at
        if operator in ("<&", ">&") and self.source[start] == "-":
            # The shell reads this dash as a token of its own, whatever follows it.
            target = ShellWord(text="-")
            self.at = start + 1
        else:
            target, self.at = read_word(self.source, start)
        written = self.source[start : self.at]
        if not written:
            raise NotParsedError("a redirection to nowhere")
        if operator in ("<<", "<<-"):
            if not _DELIMITER.fullmatch(written):
                raise NotParsedError("a here-document with an unusual delimiter")
            delimiter = written.strip("'\"")
            self.heredocs.append(_Heredoc(delimiter, delimiter != written, operator == "<<-"))
            target = ShellWord(text=delimiter)
        elif operator in ("<&", ">&") and any(sign in target.text for sign in "$`\\"):
            # A name that is no number is expanded a second time, without its quotes.
            raise NotParsedError("a redirection that may run a command")
        elif self.heredocs and "\n" in written:
            raise NotParsedError("a here-document next to a word of several lines")
        self.redirections.append(Redirection(operator=operator, target=target, descriptor=descriptor))
        self.wants_command = False

    def _read_heredocs(self) -> None:
        for heredoc in self.heredocs:
            while True:
                end = self.source.find("\n", self.at)
                line = self.source[self.at :] if end < 0 else self.source[self.at : end]
                self.at = len(self.source) if end < 0 else end + 1
                if (line.lstrip("\t") if heredoc.strips_tabs else line) == heredoc.delimiter:
                    break
                if end < 0:
                    raise NotParsedError("a here-document that does not end")
                if not heredoc.is_quoted and any(sign in line for sign in "$`\\"):
                    raise NotParsedError("an expansion in a here-document")
        self.heredocs.clear()

    def _end_command(self) -> None:
        if self.closed_group is not None:
            for index in range(self.closed_group, len(self.done)) if self.redirections else ():
                own = self.done[index].redirections
                self.done[index] = replace(self.done[index], redirections=(*own, *self.redirections))
        elif self._is_inside_command():
            self.done.append(
                SimpleCommand(
                    words=tuple(self.words),
                    assignments=tuple(self.assignments),
                    redirections=tuple(self.redirections),
                )
            )
        self.words = []
        self.assignments = []
        self.redirections = []
        self.closed_group = None


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
_QUOTED = "\0"
_UNSURE = "\1"
_EMPTY = "\2"
"""Control characters never reach the reader, so these cannot be mistaken for the user's own."""
_ANSI_PLAIN = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}


@dataclass(slots=True)
class _Draft:
    """A word that is not complete yet."""

    text: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)
    """Unquoted characters in place; `_QUOTED`, `_UNSURE` and `_EMPTY` stand for the rest."""
    variable: bool = False
    splits: bool = False
    unsure: bool = False
    """Contains something whose value is unknown."""

    def add(self, text: str, *, quoted: bool) -> None:
        self.text.append(text)
        self.bare.append((_QUOTED * len(text) or _EMPTY) if quoted else text)

    def add_unsure(self, source: str) -> None:
        self.unsure = True
        self.text.append(source)
        self.bare.append(_UNSURE)


def read_word(source: str, start: int) -> tuple[ShellWord, int]:
    """The word that begins at `start`, and where it ends."""
    draft = _Draft()
    at = start
    while at < len(source) and source[at] not in META:
        match source[at]:
            case "'":
                end = source.find("'", at + 1)
                if end < 0:
                    raise NotParsedError("a quote that is not closed")
                draft.add(source[at + 1 : end], quoted=True)
                at = end + 1
            case '"':
                at = _read_double_quoted(source, at + 1, draft)
            case "\\":
                if source[at + 1 : at + 2] in ("", "\n"):
                    raise NotParsedError("a line continued in the middle of a word")
                draft.add(source[at + 1], quoted=True)
                at += 2
            case "`":
                raise NotParsedError("command substitution")
            case "$":
                at = _read_dollar(source, at, draft)
            case character:
                draft.add(character, quoted=False)
                at += 1
    return _finish(draft), at


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
            # Bash looks the text up in a catalogue of translations: the result is unknown.
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
            # Octal, hexadecimal and control escapes are rare, so they are not parsed.
            draft.add_unsure("\\" + escape)
        at += 2
    raise NotParsedError("a quote that is not closed")


def _finish(draft: _Draft) -> ShellWord:
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
    # The first character is fixed and no dash.
    first = bare.lstrip(_EMPTY)[:1]
    begins_safely = first not in ("", _UNSURE, "*", "?", "[", "{") and not text.startswith("-")
    return ShellWord(
        text=text,
        is_literal=not expands,
        is_single=not splits,
        is_never_option=not draft.splits and not has_foreign and begins_safely,
        has_variable=draft.variable,
        is_assignment=bool(_ASSIGNMENT.match(bare)),
        is_bare=not ({_QUOTED, _UNSURE, _EMPTY} & set(bare)),
    )
