"""What is judged read-only is run by a real bash, and nothing may have changed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nacre.tools.shell import SimpleCommand, explain, programs
from tests.scale import scaled
from tests.tools.test_shell_commands import ROWS

BASH = shutil.which("bash")
GIT = shutil.which("git")
RUN_SECONDS = 5
"""A command that waits is ended; what it had changed until then would still be seen."""
EXAMPLES = scaled(150)
"""Each starts several processes."""

pytestmark = pytest.mark.skipif(BASH is None or GIT is None, reason="needs bash and git on PATH")

EVIL = '#!/bin/sh\necho ran > "$WITNESS/ran"\n'
"""Stands beside the files under many names: whoever runs one of them leaves a witness."""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A repository with a few files, names that look like options, and traps."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        (work / "src").mkdir(parents=True)
        for name in ("a", "b", "x", "a.txt", "b.txt", "src/main.py", "-o", "-delete", "-i", "--output=gone"):
            (work / name).write_text("one\ntwo\nthree\n", encoding="utf-8")
        for name in ("ls", "rm", "cat", "evil", "3", "src/ls"):
            trap = work / name
            trap.write_text(EVIL, encoding="utf-8")
            trap.chmod(0o755)
        (Path(folder) / "home").mkdir()
        environ = environment(Path(folder))
        for line in ("init -q", "add -- a b src", "-c user.name=n -c user.email=e commit -qm first"):
            subprocess.run(["git", *line.split()], cwd=work, env=environ, check=True, timeout=60)
        yield work


def environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder / "home"),
        "WITNESS": str(folder / "work"),
        "LC_ALL": "C.UTF-8",
        "X": "-o made",
        "OPT": "--output=made",
        "ACTION": "-delete",
        "SUB": "a[$(touch made)]",
        # A refreshed index is a cache, not a change; asked not to, git leaves it.
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
    }


def fingerprint(folder: Path) -> str:
    """Names, kinds, modes and contents of all there is."""
    total = hashlib.sha256()
    for directory, names, files in sorted(os.walk(folder)):
        for name in sorted([*names, *files]):
            path = Path(directory) / name
            mode = path.lstat().st_mode
            body = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            total.update(f"{path}\0{mode}\0{len(body)}\0".encode("utf-8", "surrogateescape") + body)
    return total.hexdigest()


def changes_anything(command: str, work: Path) -> bool:
    before = fingerprint(work.parent)
    with subprocess.Popen(
        [str(BASH), "-c", 'eval "$1"', "bash", command],
        cwd=work,
        env=environment(work.parent),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as running:
        try:
            running.wait(RUN_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, 9)
    return fingerprint(work.parent) != before


def test_the_fingerprint_sees_what_a_command_does(place: Path) -> None:
    """Without this, the tests below could not fail."""
    assert changes_anything("echo x > made", place)
    assert changes_anything("chmod 600 made", place)
    assert changes_anything("./evil", place)
    assert changes_anything("rm made ran", place)
    assert not changes_anything("ls", place)


READING = [command for command, expected in ROWS if expected and "tail -f" not in command]


@pytest.mark.slow
@pytest.mark.parametrize("command", READING, ids=ascii)
def test_what_the_table_calls_reading_changes_nothing(command: str, place: Path) -> None:
    assert not changes_anything(command, place)


PROGRAMS = st.sampled_from(
    """
    ls cat head wc grep find sort uniq sed printf test [ xxd date tree diff file git env echo cd jq od
    command rm touch
    tee ./evil evil sh eval $X /bin/ls type : column base64
    """.split()
)
ARGUMENTS = st.sampled_from(
    [
        *r"""
        a b src . x a.txt made -o -n -i -r -u -c -e -p -w -O -k -T -v -s -delete -print -name -exec
        -type f + -fprint
        --output=made --outp=made -omade -uomade -- ] = ! -f p 1p 1,2p s/o/0/ s/o/0/wmade wmade '%s'
        '%n' '%5%%n' PATH
        * ? a* {a,made} {-o,made} $X "$X" $OPT $ACTION "$@" "src/$X" ''* "$OPT" $'-o' $'\x2do' ~ ~- $SUB
        "$SUB"
        ${SUB} ${#SUB} ${SUB@P} ${SUB:=x} $((SUB)) $((1+1)) -eq -R -lt 1 2 log diff show status branch
        tag stash list
        config grep reflog remote -C --no-pager -l --get
        """.split(),
        *("'w made'", "'e touch made'", "'1e touch made'", "'s/one/touch made/e'", "'a[$(touch made)]'"),
        *("$(touch made)", "`touch made`", '"$(touch made)"', "<(touch made)", '"$\\\n(touch made)"'),
    ]
)
REDIRECTIONS = st.sampled_from(
    [
        *("> made", ">made", ">>made", "2>made", "&>made", ">&made", "<>made", ">|made", "< a", "<a", "2>&1"),
        *(">/dev/null", "2>/dev/null", "&>/dev/null", "<<< x", "99999999999>/dev/null", "{fd}>made", ">&2"),
        *("<<E\n$(touch made)\nE\n", "<<'E'\n$(touch made)\nE\n", "<&0", "> /dev/nul?", "<\\\n(touch made)"),
    ]
)
JOINS = st.sampled_from(
    [
        ";",
        "&&",
        "||",
        "|",
        "|&",
        "\n",
        " ; ",
        " | ",
        " &\n",
        " # x\n",
        " \\\n",
        "\\\n",
        "; ! ",
        "; {",
        "; }",
        " )",
    ]
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Command lines made of harmless and hostile pieces."""
    pieces = []
    for index in range(draw(st.integers(1, 3))):
        if index:
            pieces.append(draw(JOINS))
        words = [draw(PROGRAMS), *draw(st.lists(ARGUMENTS, max_size=4))]
        if draw(st.integers(0, 3)) == 0:
            words.insert(draw(st.integers(0, len(words))), draw(REDIRECTIONS))
        if draw(st.integers(0, 9)) == 0:
            words.insert(0, draw(st.sampled_from(["(", "{", "!", "PATH=.", "X=1", "time"])))
            words.append(draw(st.sampled_from([")", "; }", ""])))
        pieces.append(" ".join(words))
    return "".join(pieces)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
    ],
)
@given(command=lines().filter(lambda line: explain(line).read_only))
def test_a_line_that_is_judged_read_only_changes_nothing(command: str, place: Path) -> None:
    """Unknown means no, and yes means nothing happened (E5)."""
    assert not changes_anything(command, place)


SYMBOLS = st.sampled_from(
    [
        *(
            "p",
            "q",
            "p ",
            "q ",
            " ",
            "\n",
            ";",
            "&&",
            "||",
            "|",
            "|&",
            "&",
            "(",
            ")",
            "{ ",
            "; }",
            "! ",
            "#",
            " #",
        ),
        *(
            "'",
            '"',
            "\\",
            "\\\n",
            " \\\n",
            "$",
            "$'",
            "\\'",
            '$"',
            "`",
            "<<E\n",
            "<<'E'\n",
            "<<-E\n",
            "\nE\n",
        ),
        *(
            "E\n",
            "\tE\n",
            "<<<",
            "</dev/null",
            ">/dev/null",
            "2>&1",
            "2",
            ">&2",
            ">&-",
            "<&",
            "&>/dev/null",
            "=",
        ),
        *(
            "A=1 ",
            "-",
            "a",
            "{a,b}",
            "{",
            "}",
            ",",
            "[",
            "]",
            "*",
            "~",
            "\t",
            "é",
            '"$A"',
            "$A",
            "${A:-b}",
            "$((1))",
        ),
        *("((", "[[ ", "if ", "then ", "fi", "time ", "<", ";;"),
    ]
)
TELLS = 'command_not_found_handle() { printf "%s\\0" "$#" "$@" >> "$LOG"; }; eval "$1"; wait'
"""No program is found, so the shell tells this function what it would have started."""


def started(command: str, folder: Path) -> list[tuple[str, ...]]:
    """What a real bash starts, with the arguments it gives."""
    log = folder / "log"
    log.write_bytes(b"")
    (folder / "empty").mkdir(exist_ok=True)
    subprocess.run(
        [str(BASH), "-c", TELLS, "bash", command],
        cwd=folder / "empty",
        env={"PATH": "/nonexistent", "LOG": str(log), "A": "x y", "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    told = [piece.decode("utf-8", "replace") for piece in log.read_bytes().split(b"\0")[:-1]]
    found = []
    while told:
        count = int(told.pop(0))
        found.append(tuple(told[:count]))
        del told[:count]
    return found


def unforeseen(found: list[tuple[str, ...]], parts: tuple[SimpleCommand, ...]) -> list[tuple[str, ...]]:
    """What was started although it is not among the parsed commands."""
    literal = [part for part in parts if all(word.is_literal for word in part.words)]
    exact = Counter(part.argv for part in literal)
    # Of a command with expansions only the name can be compared.
    named = Counter(part.argv[0] for part in parts if part.words and part not in literal)
    surprises = []
    for argv in found:
        if exact[argv] > 0:
            exact[argv] -= 1
        elif named[argv[0]] > 0:
            named[argv[0]] -= 1
        else:
            surprises.append(argv)
    return surprises


def has_plain_names(command: str) -> bool:
    parts = programs(command)
    return bool(parts) and all(not part.words or part.words[0].is_literal for part in parts or ())


def test_bash_starts_what_was_parsed_and_would_be_seen_to_start_more(tmp_path: Path) -> None:
    """Without this, the next test could not fail."""
    parts = programs("p a; q")
    assert parts is not None
    assert started("p a; q", tmp_path) == [("p", "a"), ("q",)]
    assert unforeseen(started("p a; q; r $(s)", tmp_path), parts) == [("s",), ("r",)]


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(command=st.lists(SYMBOLS, min_size=2, max_size=14).map("".join).filter(has_plain_names))
def test_a_real_bash_starts_nothing_but_what_was_parsed(
    command: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Rules are matched against the parsed commands, so the shell must not read the line another way."""
    parts = programs(command)
    assert parts is not None
    assert not unforeseen(started(command, tmp_path_factory.mktemp("run")), parts)
