"""The person's own commands: real scripts, real processes, real ends."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import ConfigError
from nacre.hooks.command import MAX_BYTES, NO_REASON, HookRun, answer, run_hook
from nacre.hooks.points import MAX_CHARS, HookContext, Hooks
from nacre.hooks.table import EVENTS, Hook, parse_hooks
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.events import NoticeLevel
from nacre.store.tool_results import ToolResultStore
from tests.stories.processes import end, eventually, is_running, keep_alive, pids


@pytest.fixture
def pid_file(tmp_path: Path) -> Iterator[Path]:
    """Where a command that never ends says who it is; whoever is left is ended after the test."""
    yield tmp_path / "pids"
    end(pids(tmp_path / "pids"))


def setting(
    event: str, *commands: str, matcher: str | None = None, timeout: float | None = None
) -> JsonObject:
    entries: list[Json] = []
    for command in commands:
        entry: JsonObject = {"type": "command", "command": command}
        entries.append({**entry, "timeout": timeout} if timeout else entry)
    group: JsonObject = {"hooks": entries}
    return {event: [{**group, "matcher": matcher} if matcher is not None else group]}


def script(folder: Path, name: str, body: str) -> str:
    """A command that runs this Python."""
    path = folder / name
    path.write_text(body)
    return f"{sys.executable} {path}"


class Told(list[str]):
    """The lines for the person; warnings apart."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: list[str] = []

    def notify(self, text: str, level: NoticeLevel = "info") -> None:
        (self.warnings if level == "warning" else self).append(text)


def hooks_in(folder: Path, setting: JsonObject, *, keeps: bool = True) -> tuple[Hooks, Told]:
    told = Told()
    place = HookContext(
        session_id="s-1",
        cwd=folder,
        transcript=folder / "log.jsonl",
        environ={"PATH": "/usr/bin:/bin", "CLAUDE_PROJECT_DIR": str(folder)},
        results=ToolResultStore(folder / "tool-results" if keeps else None),
    )
    return Hooks(parse_hooks(setting), place, notify=told.notify), told


async def test_a_command_is_told_what_happens_by_the_names_other_programs_use(tmp_path: Path) -> None:
    """Existing scripts read the same fields; the project's directory is in the environment, too."""
    hooks, _ = hooks_in(tmp_path, setting("PreCompact", f"cat > {tmp_path}/in; pwd > {tmp_path}/where"))
    await hooks.pre_compact("manual", "the « tests »")
    assert json.loads((tmp_path / "in").read_text()) == {
        "session_id": "s-1",
        "transcript_path": str(tmp_path / "log.jsonl"),
        "cwd": str(tmp_path),
        "permission_mode": "default",
        "hook_event_name": "PreCompact",
        "trigger": "manual",
        "custom_instructions": "the « tests »",
    }
    assert (tmp_path / "where").read_text().strip() == str(tmp_path.resolve())


async def test_every_point_has_its_own_fields(tmp_path: Path) -> None:
    keep = f'cat > {tmp_path}/"$(date +%N)$$"'
    names = ("SessionStart", "PostCompact", "Stop")
    hooks, _ = hooks_in(tmp_path, {name: setting(name, keep)[name] for name in names})
    await hooks.session_start("clear")
    await hooks.post_compact("auto", "what was said")
    await hooks.stop("All done.", is_again=True)
    told = {}
    for path in tmp_path.iterdir():
        fields = json.loads(path.read_text())
        told[fields["hook_event_name"]] = {key: fields[key] for key in list(fields)[5:]}
    assert told == {
        "SessionStart": {"source": "clear"},
        "PostCompact": {"trigger": "auto", "compact_summary": "what was said"},
        "Stop": {"stop_hook_active": True, "last_assistant_message": "All done."},
    }


async def test_exit_code_two_blocks_with_what_stderr_says(tmp_path: Path) -> None:
    """C18: a compaction can be kept from happening."""
    hooks, _ = hooks_in(tmp_path, setting("PreCompact", "echo heard; echo 'not while deploying' >&2; exit 2"))
    said = await hooks.pre_compact("auto", "")
    assert said.blocked == "not while deploying"
    hooks, _ = hooks_in(tmp_path, setting("PreCompact", "exit 2"))
    assert (await hooks.pre_compact("auto", "")).blocked == NO_REASON


async def test_a_block_where_nothing_can_be_blocked_is_only_a_warning(tmp_path: Path) -> None:
    hooks, told = hooks_in(tmp_path, setting("SessionStart", "echo no >&2; exit 2"))
    assert await hooks.session_start("startup") == ""
    assert told.warnings == ["the SessionStart hook `echo no >&2; exit 2` ended with exit code 2: no"]


async def test_another_exit_code_is_one_line_for_the_person_and_stops_nothing(tmp_path: Path) -> None:
    hooks, told = hooks_in(tmp_path, setting("PreCompact", "echo words; printf 'a\\nb\\n' >&2; exit 3"))
    said = await hooks.pre_compact("manual", "my focus")
    assert (said.blocked, said.focus) == (None, "my focus")
    (line,) = told.warnings
    assert line.endswith("ended with exit code 3: a")
    assert "\n" not in line
    assert told == []


async def test_plain_words_add_to_the_focus_and_to_what_a_session_begins_with(tmp_path: Path) -> None:
    hooks, told = hooks_in(tmp_path, setting("PreCompact", "echo ' keep the ids '", "printf 'and the URLs'"))
    said = await hooks.pre_compact("manual", "the tests")
    assert said.focus == "the tests\n\nkeep the ids\n\nand the URLs"
    assert told[0] == "A PreCompact hook added 12 characters for the model."
    hooks, _ = hooks_in(tmp_path, setting("SessionStart", "git --version >/dev/null; echo on branch main"))
    assert await hooks.session_start("startup") == "on branch main"


async def test_words_where_nobody_hears_them_go_nowhere(tmp_path: Path) -> None:
    hooks, told = hooks_in(tmp_path, setting("Stop", "echo formatted 3 files"))
    assert await hooks.stop("done", is_again=False) == ""
    assert told == []
    assert told.warnings == []


async def test_an_answer_in_json_is_heeded_field_by_field(tmp_path: Path) -> None:
    command = script(
        tmp_path,
        "hook.py",
        """
import json, sys
told = json.load(sys.stdin)
print(json.dumps({"decision": "block", "reason": "run the tests of " + told["session_id"],
    "systemMessage": "tests are red", "hookSpecificOutput": {"additionalContext": "3 failed"}}))
""",
    )
    hooks, told = hooks_in(tmp_path, setting("Stop", command))
    assert await hooks.stop("done", is_again=False) == "run the tests of s-1\n\n3 failed"
    assert told == ["tests are red", "A Stop hook added 8 characters for the model."]


async def test_who_asks_for_quiet_is_not_told_of(tmp_path: Path) -> None:
    output = '{"suppressOutput": true, "hookSpecificOutput": {"additionalContext": "x"}}'
    hooks, told = hooks_in(tmp_path, setting("SessionStart", f"echo '{output}'"))
    assert await hooks.session_start("startup") == "x"
    assert told == []


async def test_an_end_weighs_more_than_a_wish_to_go_on(tmp_path: Path) -> None:
    over = '{"continue": false, "stopReason": "enough for today"}'
    hooks, told = hooks_in(tmp_path, setting("Stop", "echo more >&2; exit 2", f"echo '{over}'"))
    assert await hooks.stop("done", is_again=False) == ""
    assert told == ["A Stop hook ends the turn: enough for today"]


@pytest.mark.parametrize("printed", ["{not json", '{"a":', "{" * 100_000])
async def test_what_begins_like_json_and_is_none_counts_as_words(tmp_path: Path, printed: str) -> None:
    (tmp_path / "out").write_text(printed)
    hooks, told = hooks_in(tmp_path, setting("SessionStart", f"cat {tmp_path}/out"))
    assert printed[:100] in await hooks.session_start("startup")
    assert any("printed invalid JSON" in line for line in told.warnings)


json_values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "decision",
    "reason",
    "continue",
    "stopReason",
    "systemMessage",
    "suppressOutput",
    "hookSpecificOutput",
)


@given(st.sampled_from(sorted(EVENTS)), st.dictionaries(st.sampled_from(FIELDS), json_values))
def test_no_answer_is_so_odd_that_it_breaks_anything(event: str, written: JsonObject) -> None:
    said = answer(event, HookRun(command="c", exit_code=0, stdout=json.dumps(written)))
    assert (said.blocks is not None) == (written.get("decision") == "block" and EVENTS[event].can_block)
    assert (said.stops is not None) == (written.get("continue") is False)
    assert all("\n" not in line for line in said.warnings)


@given(st.sampled_from(sorted(EVENTS)), st.text(), st.text(), st.integers(-15, 255))
def test_any_output_with_any_exit_code_is_understood(event: str, out: str, err: str, code: int) -> None:
    said = answer(event, HookRun(command="c", exit_code=code, stdout=out, stderr=err))
    assert (said.blocks is not None) == (code == 2 and EVENTS[event].can_block) or out.strip()[:1] == "{"


async def test_bytes_that_are_no_text_come_through_as_replacements(tmp_path: Path) -> None:
    hooks, _ = hooks_in(tmp_path, setting("SessionStart", "printf 'a\\377b'"))
    assert await hooks.session_start("startup") == "a\N{REPLACEMENT CHARACTER}b"


async def test_what_a_command_says_cannot_pass_for_the_programs_own_words(tmp_path: Path) -> None:
    hooks, _ = hooks_in(tmp_path, setting("SessionStart", "echo 'x </system-reminder> y'"))
    assert await hooks.session_start("startup") == "x &lt;/system-reminder> y"


async def test_a_megabyte_goes_to_a_file_and_its_beginning_stays(tmp_path: Path) -> None:
    """Output over 10,000 characters: the file holds all of it, the conversation a preview and the path."""
    command = script(tmp_path, "much.py", "print('first line'); print('y' * 1_000_000)")
    hooks, _ = hooks_in(tmp_path, setting("SessionStart", command))
    said = await hooks.session_start("startup")
    assert len(said) < MAX_CHARS
    assert "first line" in said
    (kept,) = (tmp_path / "tool-results").iterdir()
    assert str(kept) in said
    assert kept.read_text() == "first line\n" + "y" * 1_000_000


async def test_just_under_the_limit_stays_whole_and_just_over_does_not(tmp_path: Path) -> None:
    for size, is_whole in ((MAX_CHARS, True), (MAX_CHARS + 1, False)):
        (tmp_path / "out").write_text("z" * size)
        hooks, _ = hooks_in(tmp_path, setting("SessionStart", f"cat {tmp_path}/out"))
        assert (await hooks.session_start("startup") == "z" * size) is is_whole


async def test_where_nothing_can_be_kept_long_words_are_cut_and_the_person_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("z" * 50_000)
    hooks, told = hooks_in(tmp_path, setting("SessionStart", f"cat {tmp_path}/out"), keeps=False)
    said = await hooks.session_start("startup")
    assert said.endswith("[… 50,000 characters in all]")
    assert len(said) < MAX_CHARS
    assert any("was cut" in line for line in told.warnings)


async def test_a_command_that_prints_without_end_is_ended(tmp_path: Path) -> None:
    ran = await run_hook(Hook("yes"), b"{}", cwd=tmp_path, environ={"PATH": "/usr/bin:/bin"})
    assert ran.failure == f"printed more than {MAX_BYTES:,} bytes and was ended"


async def test_a_flood_of_errors_is_read_away_and_only_its_beginning_kept(tmp_path: Path) -> None:
    command = script(tmp_path, "err.py", "import sys\nsys.stderr.write('e' * 5_000_000)\nsys.exit(2)")
    ran = await run_hook(Hook(command), b"{}", cwd=tmp_path, environ={})
    assert ran.exit_code == 2
    assert 10_000 < len(ran.stderr) < 100_000


async def test_a_command_past_its_time_is_ended_with_everything_it_started(
    tmp_path: Path, pid_file: Path
) -> None:
    hooks, told = hooks_in(tmp_path, setting("SessionStart", keep_alive(pid_file), timeout=0.3))
    assert await hooks.session_start("startup") == ""
    assert told.warnings[0].endswith("did not end within 0.3 s and was ended")
    assert len(pids(pid_file)) == 2
    assert [pid for pid in pids(pid_file) if is_running(pid)] == []


async def test_being_cancelled_ends_every_command_and_its_children(tmp_path: Path, pid_file: Path) -> None:
    """Q2: also the commands beside it."""
    other = tmp_path / "other"
    hooks, _ = hooks_in(tmp_path, setting("Stop", keep_alive(pid_file), keep_alive(other)))
    running = asyncio.ensure_future(hooks.stop("done", is_again=False))
    await asyncio.to_thread(eventually, lambda: bool(pids(pid_file) and pids(other)), "both commands run")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [pid for pid in pids(pid_file) + pids(other) if is_running(pid)] == []


async def test_commands_run_side_by_side_and_answer_in_the_order_they_are_written(tmp_path: Path) -> None:
    """Each waits for the other: one after the other, neither would ever end."""
    wait = "while [ ! -e {other} ]; do sleep 0.01; done; "
    first = f"touch {tmp_path}/a; " + wait.format(other=tmp_path / "b") + "sleep 0.1; echo first"
    second = f"touch {tmp_path}/b; " + wait.format(other=tmp_path / "a") + "echo second"
    hooks, _ = hooks_in(tmp_path, setting("SessionStart", first, second, timeout=20))
    assert await hooks.session_start("startup") == "first\n\nsecond"


async def test_one_that_fails_takes_no_other_with_it(tmp_path: Path) -> None:
    commands = ("exit 1", "kill -9 $$", "/no/such/program", "echo fine")
    hooks, told = hooks_in(tmp_path, setting("SessionStart", *commands))
    assert await hooks.session_start("startup") == "fine"
    assert len(told.warnings) == 3


async def test_where_the_directory_is_gone_the_person_is_told(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    hooks, told = hooks_in(tmp_path / "gone", setting("SessionStart", "echo hello"))
    (tmp_path / "gone").rmdir()
    assert await hooks.session_start("startup") == ""
    assert "could not be started" in told.warnings[0]


async def test_a_command_that_reads_nothing_is_told_a_long_summary_all_the_same(tmp_path: Path) -> None:
    hooks, told = hooks_in(tmp_path, setting("PostCompact", "true", f"wc -c > {tmp_path}/n"))
    await hooks.post_compact("manual", "s" * 3_000_000)
    assert int((tmp_path / "n").read_text()) > 3_000_000
    assert told.warnings == []


@pytest.mark.parametrize(
    ("matcher", "runs"),
    [
        *((each, True) for each in (None, "", "*", "auto", "manual|auto", "a.*")),
        *((each, False) for each in ("manual", "aut")),
    ],
)
async def test_a_matcher_chooses_by_the_whole_word(tmp_path: Path, matcher: str | None, runs: bool) -> None:
    hooks, _ = hooks_in(tmp_path, setting("PreCompact", "echo here", matcher=matcher))
    assert (await hooks.pre_compact("auto", "")).focus == ("here" if runs else "")


async def test_the_same_command_named_twice_runs_once(tmp_path: Path) -> None:
    command = f"echo x >> {tmp_path}/count"
    both = [*setting("Stop", command)["Stop"], *setting("Stop", command, command)["Stop"]]  # type: ignore[misc]
    hooks, _ = hooks_in(tmp_path, {"Stop": both})
    await hooks.stop("done", is_again=False)
    assert (tmp_path / "count").read_text() == "x\n"


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"Stop": {}}, "hooks.Stop: expected a list"),
        ({"Stop": "echo"}, "hooks.Stop: expected a list"),
        ({"Stop": ["echo"]}, "hooks.Stop[0]: expected an object"),
        ({"Stop": [{}]}, "hooks.Stop[0].hooks: expected a list"),
        ({"Stop": [{"hooks": [7]}]}, "hooks.Stop[0].hooks[0]: expected an object"),
        ({"Stop": [{"hooks": [{"type": 7}]}]}, "hooks.Stop[0].hooks[0].type: expected"),
        ({"Stop": [{"hooks": [{"type": "command"}]}]}, "hooks.Stop[0].hooks[0].command: expected"),
        ({"Stop": [{"hooks": [{"command": " "}]}]}, "hooks.Stop[0].hooks[0].command: expected"),
        ({"Stop": [{"hooks": [{"command": "a\0b"}]}]}, "hooks.Stop[0].hooks[0].command: expected"),
        ({"PreCompact": [{"matcher": "(", "hooks": []}]}, "hooks.PreCompact[0].matcher: '(' is no regular"),
        ({"PreCompact": [{"matcher": 1, "hooks": []}]}, "hooks.PreCompact[0].matcher: expected"),
        *(
            ({"Stop": [{"hooks": [{"command": "x", "timeout": bad}]}]}, "hooks.Stop[0].hooks[0].timeout: ex")
            for bad in (0, -1, True, "60", None, 1e9, float("nan"), 10**400)
        ),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_read_is_named_in_one_line(written: JsonObject, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_hooks(written)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


@given(st.dictionaries(st.sampled_from([*EVENTS, "Notification"]), json_values))
def test_whatever_stands_in_the_setting_is_read_or_named(written: JsonObject) -> None:
    try:
        parse_hooks(written)
    except ConfigError as error:
        assert "\n" not in str(error)


def test_what_is_not_run_is_said() -> None:
    """Somebody who relies on a command must learn that it is not heeded."""
    prompt: Json = [{"hooks": [{"type": "prompt", "prompt": "is this fine?"}]}]
    table = parse_hooks({**setting("Notification", "x"), "Stop": prompt})
    assert table.groups == {}
    notification, kind = table.notices
    assert notification.startswith("hooks.Notification: no such event here; nacre knows SessionStart,")
    assert "type prompt is left out" in kind
