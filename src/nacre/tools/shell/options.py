"""Check the arguments of a program against the options it may have.

An option that is not listed is refused: abbreviations (`--outp`), clusters (`-uo`) and options of other
versions of the program therefore need no case of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nacre.tools.shell.commands import ShellWord


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedOptions:
    """The options that a program may have, and how many other arguments."""

    flags: str = ""
    """Short options without a value."""
    valued: str = ""
    """Short options with a value, attached or as the next argument."""
    separate: str = ""
    """Short options whose value is always the next argument; nothing may follow them in a cluster."""
    attached: str = ""
    """Short options whose value, if any, is the rest of the same argument."""
    long: frozenset[str] = field(default_factory=frozenset)
    """Long options without a value or with `=value`."""
    long_valued: frozenset[str] = field(default_factory=frozenset)
    """Long options with a value, after `=` or as the next argument."""
    max_operands: int | None = None
    """How many other arguments are allowed; with a limit, options must precede them."""


def names(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedArguments:
    """Arguments sorted into options and the rest."""

    options: tuple[tuple[str, ShellWord | None], ...] = ()
    """Each with the word of its value."""
    operands: tuple[ShellWord, ...] = ()
    refused: str = ""
    """The first argument that is not allowed; empty if there is none."""

    def has(self, *names: str) -> bool:
        """Return whether one of these options is present."""
        return any(name in names for name, _ in self.options)


def sort_arguments(arguments: Sequence[ShellWord], allowed: AllowedOptions) -> SortedArguments:
    """Parse the arguments like the program, up to the first one that is not allowed."""
    options: list[tuple[str, ShellWord | None]] = []
    operands: list[ShellWord] = []
    rest = iter(arguments)
    for word in rest:
        if not word.is_tame:
            return SortedArguments(refused=word.text)
        if word.text == "--":
            ended = list(rest)
            operands.extend(ended)
            # Had an option before it taken the `--` as its value, these would be options.
            if strange := [late.text for late in ended if not late.is_tame or _looks_like_option(late)]:
                return SortedArguments(refused=strange[0])
            break
        if not _looks_like_option(word):
            operands.append(word)
            continue
        found = _read_option(word, rest, allowed)
        if found is None or (operands and allowed.max_operands is not None):
            return SortedArguments(refused=word.text)
        options.extend(found)
    return _bounded(SortedArguments(options=tuple(options), operands=tuple(operands)), allowed)


def _looks_like_option(word: ShellWord) -> bool:
    return word.text.startswith("-") and word.text != "-"


def _bounded(given: SortedArguments, allowed: AllowedOptions) -> SortedArguments:
    if allowed.max_operands is None:
        return given
    for index, word in enumerate(given.operands):
        if index >= allowed.max_operands or not word.is_single:
            return SortedArguments(refused=word.text)
    return given


def _read_option(
    word: ShellWord, rest: Iterator[ShellWord], allowed: AllowedOptions
) -> list[tuple[str, ShellWord | None]] | None:
    """Return the options in one argument; None if one of them is not allowed."""
    if not word.text.startswith("--"):
        return _read_cluster(word, rest, allowed)
    name, sign, value = word.text[2:].partition("=")
    if name in allowed.long or (sign and name in allowed.long_valued):
        return [(name, ShellWord(text=value) if sign else None)]
    if name in allowed.long_valued:
        return _with_next(name, rest)
    return None


def _read_cluster(
    word: ShellWord, rest: Iterator[ShellWord], allowed: AllowedOptions
) -> list[tuple[str, ShellWord | None]] | None:
    found: list[tuple[str, ShellWord | None]] = []
    for index, letter in enumerate(word.text[1:], start=2):
        if letter in allowed.flags:
            found.append((letter, None))
        elif letter in allowed.attached or (letter in allowed.valued and word.text[index:]):
            return [*found, (letter, ShellWord(text=word.text[index:]))]
        elif letter in allowed.valued or (letter in allowed.separate and not word.text[index:]):
            last = _with_next(letter, rest)
            return [*found, *last] if last else None
        else:
            return None
    return found


def _with_next(name: str, rest: Iterator[ShellWord]) -> list[tuple[str, ShellWord | None]] | None:
    value = next(rest, None)
    # A value that looks like an option may be one, for a version of the program that expects no value.
    if value is None or not (value.is_tame and value.is_single) or _looks_like_option(value):
        return None
    return [(name, value)]
