"""What a command line is taken apart into, and what is said of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.tools.shell import (
    EXTRACTION,
    Allowed,
    CommandVerdict,
    SimpleCommand,
    explain,
    objection,
    programs,
)
from nacre.tools.shell.parser import _BLANK_LETTERS

NESTED = 5_000
"""Deeper than the interpreter's own stack would allow."""


def argvs(command: str) -> list[tuple[str, ...]] | None:
    found = programs(command)
    return None if found is None else [part.argv for part in found]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git status && npm test | tail -5", [("git", "status"), ("npm", "test"), ("tail", "-5")]),
        ("(a; b)\n{ c; } & d", [("a",), ("b",), ("c",), ("d",)]),
        ("a 'b c' \"d e\" f\\ g $'h\\ti'", [("a", "b c", "d e", "f g", "h\ti")]),
        ("a '' \"\"", [("a", "", "")]),
        ("! a || ! b", [("a",), ("b",)]),
        ("a # b\nc", [("a",), ("c",)]),
        ("a 2>&1 3<b c", [("a", "c")]),
        ("cat <<X | wc\nrm a\nX\npwd", [("cat",), ("wc",), ("pwd",)]),
        ("X=1 a; Y=2", [("a",), ()]),
        ('"X=1" a', [("X=1", "a")]),
        ("a{b c}", [("a{b", "c}")]),
        ("", []),
        ("  # only words", []),
    ],
)
def test_a_line_is_taken_apart_into_its_programs(command: str, expected: list[tuple[str, ...]]) -> None:
    assert argvs(command) == expected


@pytest.mark.parametrize(
    "command",
    [
        "echo $(rm a)",
        "echo `rm a`",
        "cat <(rm a)",
        "for x in a; do rm a; done",
        "f() { rm a; }",
        "a 'b",
        "(a",
        "a >&'$(rm b)'",
    ],
)
def test_what_runs_more_than_its_words_say_is_not_taken_apart(command: str) -> None:
    """A rule for `echo` must not let a substitution pass."""
    assert programs(command) is None


def test_a_command_keeps_its_assignments_and_the_redirections_of_its_group() -> None:
    found = programs("{ A=1 B=$C make -j2 2>err; } > out")
    assert found is not None
    assert [(part.argv, part.assignments, [str(r) for r in part.redirections]) for part in found] == [
        (("make", "-j2"), ("A=1", "B=$C"), ["2> err", "> out"])
    ]


@pytest.mark.parametrize(
    ("word", "is_literal"),
    [
        ("a", True),
        ("'*'", True),
        ("HEAD~1", True),
        ("stash@{0}", True),
        ("a=b", True),
        ("*", False),
        ("a?", False),
        ("[ab]", False),
        ("{a,b}", False),
        ("{1..2}", False),
        ("$X", False),
        ('"$X"', False),
        ("~", False),
        ("a=~", False),
        ("$'\\x41'", False),
        ('$"a"', False),
        ("é", False),
        ("'é'", True),
    ],
)
def test_only_what_the_shell_leaves_alone_is_literal(word: str, *, is_literal: bool) -> None:
    found = programs(f"cat {word}")
    assert found is not None
    assert all(one.is_literal for one in found[0].words) == is_literal


def test_a_verdict_names_the_first_objection() -> None:
    assert explain("ls | grep x") == CommandVerdict(read_only=True)
    assert explain("ls; make; ls > out") == CommandVerdict(
        read_only=False, reason="make may change something"
    )


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("ls > out.txt", "writes to a file: > out.txt"),
        ("make", "make may change something"),
        ("echo $(ls)", "command substitution"),
        ("echo <(ls)", "process substitution"),
        ("PATH=. ls", "sets a variable: PATH=."),
        ("find . -delete", "find: -delete"),
        ("git push", "git: push"),
        ("git branch x", "git: branch x"),
        ("ls\u200b", "an invisible character: U+200B"),
        ("ls &", "a process is left in the background"),
        ("for x in a; do ls; done", "a compound command: for"),
        ("$X", "a program whose name is not written out: $X"),
        ("sort $X", "sort: $X"),
        ("", "no command"),
        ("ls " * 10_000, "longer than 20000 characters"),
    ],
)
def test_a_refusal_says_in_a_line_what_it_is_about(command: str, reason: str) -> None:
    assert explain(command).reason == reason


def test_one_command_of_a_line_can_be_judged_alone() -> None:
    found = programs("ls | tee out")
    assert found is not None
    assert [objection(part) for part in found] == ["", "tee may change something"]


def test_a_reason_stays_short_when_arguments_are_long() -> None:
    reason = explain("find . -" + "x" * 5_000).reason
    assert len(reason) == 120
    assert reason.endswith("…")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ls -la memory", True),
        ("find memory -name '*.md' -newer index", True),
        ("grep -rn cache memory | head -5", True),
        ("cat a.md; wc -l a.md; stat a.md; tail a.md", True),
        ("ls *.md", True),
        ("ls 2>/dev/null", False),
        ("cat < a.md", False),
        ("cat <<< a", False),
        ("ls $HOME", False),
        ('cat "$FILE"', False),
        ("ls $((1))", False),
        ("cat $(ls)", False),
        ("git status", False),
        ("sort a", False),
        ("cd a && ls", False),
        ("find . -exec cat {} +", False),
        ("find . -delete", False),
    ],
)
def test_an_extraction_fork_may_look_with_less(command: str, *, expected: bool) -> None:
    """E5: eight programs, no redirection, no expansion of anything but names of files."""
    assert explain(command, allowed=EXTRACTION).read_only == expected


def test_allowing_a_program_that_cannot_be_judged_does_not_make_it_read_only() -> None:
    assert not explain("make", allowed=Allowed(programs=frozenset({"make"}))).read_only


@pytest.mark.parametrize("piece", ["( ", "{ ", "! ", "$((", "$(", "${", "(", '"$(', "`", "<(", "[", "{a,"])
def test_depth_does_not_exhaust_the_stack(piece: str) -> None:
    assert not explain(piece * NESTED).read_only


@pytest.mark.parametrize(
    "command",
    [
        "sed '" + " " * 19_000 + "w'",
        "sed 's/" + "[a" * 9_000 + "'",
        "sed '" + "/a" * 9_000 + "'",
        "sed '" + "s/a/b/;" * 2_500 + "w'",
        "printf '" + "% " * 9_000 + "%n'",
        "echo " + "${X:-" + "a" * 19_000,
        "echo $((" + "1 " * 9_000,
    ],
)
def test_no_line_takes_long_to_judge(command: str) -> None:
    """Each of these would run for minutes if a pattern tried every way to split it."""
    assert not explain(command).read_only


PIECES = st.sampled_from(
    [
        *"ls rm sed find git sort ' \" $ ` \\ ( ) { } [ ] < > & | ; # ! = * ? ~ - --".split(),
        *"1 2 a $' $\" $( ${ $((".split(),
        *(" ", "\n", "\t", "<<EOF", "\nEOF\n", "X=", ":-", "@", ",", "..", "é", "\u200b", "\0"),
    ]
)


@given(st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=25).map("".join)))
def test_any_text_at_all_gets_a_verdict(text: str) -> None:
    verdict = explain(text)
    assert verdict.read_only == (not verdict.reason)
    found = programs(text)
    assert found is not None or not verdict.read_only
    assert found is None or all(isinstance(part, SimpleCommand) for part in found)


SEEN = st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp"), exclude_characters=_BLANK_LETTERS)


@given(st.lists(st.text(SEEN, min_size=1)))
def test_quoted_words_come_back_as_they_were(words: list[str]) -> None:
    quoted = ["'" + word.replace("'", "'\\''") + "'" for word in words]
    assert argvs(" ".join(["cat", *quoted])) == [("cat", *words)]
