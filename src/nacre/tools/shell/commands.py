"""The parts of a parsed command line."""

from __future__ import annotations

from dataclasses import dataclass


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

    @property
    def is_literal(self) -> bool:
        """`argv` is exactly what the program receives."""
        return all(word.is_literal for word in self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A whole command line."""

    commands: tuple[SimpleCommand, ...]
    has_background: bool = False
    """A part of it is started with `&` and may outlive the rest."""
