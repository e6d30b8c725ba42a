"""Takes a command line apart into simple commands.

Loops, conditions, functions and substitutions are not taken apart: an error names them.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field, replace

from nacre.tools.shell.commands import NotParsedError, Redirection, Script, SimpleCommand, Word
from nacre.tools.shell.words import BLANKS, read_word

MAX_CHARS = 20_000
"""Longer than any line that is meant to look at something, and short enough to judge at once."""

_OPERATORS = re.compile(
    r"&>>|&>|&&|&|\|\||\|&|\||;;&|;;|;&|;|<<<|<<-|<<|<&|<>|<\(|<|>>|>\||>&|>\(|>|\(\(|\(|\)|\n"
)
_REDIRECTIONS = frozenset({"&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">|", ">&", ">"})
_NAMED = {
    "<(": "process substitution",
    ">(": "process substitution",
    "((": "an arithmetic expression",
    ";;": "a case statement",
    ";&": "a case statement",
    ";;&": "a case statement",
}
_RESERVED = frozenset(
    {
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "select",
        "function",
        "time",
        "coproc",
        "[[",
        "]]",
    }
)
_ELEMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
_ASSIGNING = frozenset({"alias", "declare", "eval", "export", "let", "local", "readonly", "typeset"})
_NAMED_DESCRIPTOR = re.compile(r"\{[^}]*\}")
_DELIMITER = re.compile(r"(?:'[A-Za-z0-9_]+'|\"[A-Za-z0-9_]+\"|[A-Za-z0-9_]+)")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Characters that do not show, or that turn around what is shown: the reader would agree to another line."""


_BLANK_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and signs, says Unicode, but nothing is drawn for them."""


def parse(source: str) -> Script:
    """The simple commands of a command line, in the order they are written."""
    _check_characters(source)
    return _Parser(source).parse()


def _check_characters(source: str) -> None:
    if len(source) > MAX_CHARS:
        raise NotParsedError(f"longer than {MAX_CHARS} characters")
    for character in source:
        if character in "\t\n" or " " <= character <= "~":
            continue
        if unicodedata.category(character) in _UNSEEN or character in _BLANK_LETTERS:
            raise NotParsedError(f"an invisible character: U+{ord(character):04X}")


@dataclass(slots=True)
class _Open:
    """A group that is not closed yet."""

    closer: str
    first: int
    """Index of the first command inside."""


@dataclass(slots=True)
class _Heredoc:
    delimiter: str
    is_quoted: bool
    strips_tabs: bool


@dataclass(slots=True)
class _Parser:
    """One pass from left to right; groups are kept on a list, so that depth costs no recursion."""

    source: str
    at: int = 0
    done: list[SimpleCommand] = field(default_factory=list)
    groups: list[_Open] = field(default_factory=list)
    heredocs: list[_Heredoc] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    assignments: list[str] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)
    closed_group: int | None = None
    """First command of the group that was just closed: only redirections may follow it."""
    wants_command: bool = False
    """An operator or a `!` was read that something must follow."""
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
        """Go to the next token; False at the end."""
        source = self.source
        while self.at < len(source):
            if source[self.at] in BLANKS:
                self.at += 1
            elif source.startswith("\\\n", self.at):
                # Between blanks only: within a token the shell joins what we would read apart.
                if self.heredocs or not self._is_between_blanks():
                    raise NotParsedError("a line continued in the middle of a word")
                self.at += 2
            elif source[self.at] == "#":
                end = source.find("\n", self.at)
                self.at = len(source) if end < 0 else end
            else:
                return True
        return False

    def _is_between_blanks(self) -> bool:
        before, after = self.source[self.at - 1 : self.at], self.source[self.at + 2 : self.at + 3]
        return bool(before) and before in BLANKS and after != "#"

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
        else:
            self._separate(operator)

    def _separate(self, operator: str) -> None:
        is_empty = not self._is_inside_command()
        if operator == "\n":
            # A newline may stand anywhere between commands, but not between `!` and its command.
            if not is_empty:
                self._end_command()
                self.wants_command = False
            self._read_heredocs()
            return
        if is_empty:
            raise NotParsedError(f"nothing before {operator}")
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
        if _ELEMENT.match(word.text) and self._takes_assignments():
            raise NotParsedError("an element of an array")
        if not self.words and word.is_assignment:
            self.assignments.append(word.text)
        else:
            self.words.append(word)
        self.wants_command = False

    def _takes_assignments(self) -> bool:
        """Where the shell reads `name[` up to its closing bracket, blanks and all."""
        return not self.words or self.words[0].text in _ASSIGNING

    def _take_descriptor(self, word: Word) -> bool:
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
        self.groups.append(_Open(closer, len(self.done)))
        self.wants_command = True

    def _close_group(self, closer: str) -> None:
        if not self.groups or self.groups[-1].closer != closer or self.wants_command:
            raise NotParsedError(f"an unexpected {closer}")
        self.closed_group = self.groups.pop().first

    def _take_redirection(self, operator: str, descriptor: str) -> None:
        if not self._skip_blanks():
            raise NotParsedError("a redirection to nowhere")
        start = self.at
        if operator in ("<&", ">&") and self.source[start] == "-":
            # The shell reads this dash as a token of its own, whatever follows it.
            target, self.at = Word(text="-"), start + 1
        else:
            target, self.at = read_word(self.source, start)
        written = self.source[start : self.at]
        if not written:
            raise NotParsedError("a redirection to nowhere")
        if operator in ("<<", "<<-"):
            target = self._expect_heredoc(written, strips_tabs=operator == "<<-")
        elif operator in ("<&", ">&") and any(sign in target.text for sign in "$`\\"):
            # A name that is no number is expanded a second time, without its quotes.
            raise NotParsedError("a redirection that may run a command")
        elif self.heredocs and "\n" in written:
            raise NotParsedError("a here-document next to a word of several lines")
        self.redirections.append(Redirection(operator=operator, target=target, descriptor=descriptor))
        self.wants_command = False

    def _expect_heredoc(self, written: str, *, strips_tabs: bool) -> Word:
        if not _DELIMITER.fullmatch(written):
            raise NotParsedError("a here-document with an unusual delimiter")
        delimiter = written.strip("'\"")
        self.heredocs.append(_Heredoc(delimiter, delimiter != written, strips_tabs))
        return Word(text=delimiter)

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
            self._redirect_group(self.closed_group)
        elif self._is_inside_command():
            self.done.append(
                SimpleCommand(
                    words=tuple(self.words),
                    assignments=tuple(self.assignments),
                    redirections=tuple(self.redirections),
                )
            )
        self.words, self.assignments, self.redirections = [], [], []
        self.closed_group = None

    def _redirect_group(self, first: int) -> None:
        for index in range(first, len(self.done)) if self.redirections else ():
            own = self.done[index].redirections
            self.done[index] = replace(self.done[index], redirections=(*own, *self.redirections))
