"""Slash commands of a chat."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nacre.agents.registry import AgentState
from nacre.app.chat_session import end_agent, other_sessions, session_store
from nacre.app.editor import edited_by_hand, put_aside
from nacre.app.endings import Ending, Leave, Reopen, Rewound
from nacre.app.open_agent import NEW, OpenedAgent
from nacre.app.recall_once import recall_once
from nacre.app.session_text import ENDED
from nacre.cli.memory.dream import report_lines, status_lines
from nacre.cli.memory.recall import recalled_lines
from nacre.cli.output import human_age, human_count, print_error, print_table, printable
from nacre.cli.sessions.compact import compaction_lines, print_spent, progress
from nacre.clock import SYSTEM_CLOCK
from nacre.errors import NacreError, StoreError, ToolError
from nacre.formatting import shorten, usd_text, visible
from nacre.layers.l2_microcompact.pin_tool import shown
from nacre.layers.l4_compact.layer import undo_compaction
from nacre.layers.l6_dream.layer import WORK
from nacre.messages.results import AnsweredCall, answered_calls, pin, pinned
from nacre.session.compaction import CompactionRequest
from nacre.session.log_writer import NullRecordWriter
from nacre.session.session import Session
from nacre.settings import Settings

if TYPE_CHECKING:
    from nacre.agents.team import Team
    from nacre.context.plan import Plan

WORDS_CHARS = 60
"""Characters of a message in a list."""


@dataclass(frozen=True, slots=True)
class SlashContext:
    """The session and the functions that a slash command uses."""

    ready: OpenedAgent
    settings: Settings
    run: Callable[[Coroutine[Any, Any, Any]], Any]
    """Runs a coroutine in the session's event loop and waits for it."""
    go_on: Callable[[OpenedAgent], None]
    """Continues the conversation without a new message."""

    @property
    def session(self) -> Session:
        return self.ready.agent.session


class SlashCommand(NamedTuple):
    """A slash command and its line in /help."""

    act: Callable[[str, SlashContext], Ending | Coroutine[Any, Any, Ending]]
    """Gets the words after the command; a coroutine runs in the session's event loop."""
    summary: str
    runs_at_once: bool = False
    """Whether it may run while a turn works: it changes neither the conversation nor files."""


MAX_NAME = 40
"""Characters of an unknown command that are repeated."""
OTHERWISE = {
    "undo": "/memory undo undoes the last change to memory, /rewind N a turn",
    **{
        name: f"in a shell, `nacre memory {name}` does that"
        for name in ("why", "lint", "review", "verify", "log", "diff", "search", "list", "show", "edit")
    },
}
"""What to use instead of a command that a chat does not have."""


def run_slash(line: str, scene: SlashContext) -> Ending:
    """Run a line that begins with a slash; the result tells the chat whether to open another session."""
    name, _, rest = line[1:].strip().partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        hint = OTHERWISE.get(name, "/help lists them (put a space before a message that begins with /)")
        print_error(f"no command /{shorten(name, MAX_NAME)}; {hint}")
        return None
    done = command.act(rest.strip(), scene)
    ending: Ending = scene.run(done) if isinstance(done, Coroutine) else done
    return ending


async def _context(_: str, scene: SlashContext) -> None:
    from nacre.cli.sessions.context import print_contents
    from nacre.inspect.context_usage import contents_now

    print_contents(contents_now(scene.session))


async def _cost(_: str, scene: SlashContext) -> None:
    from nacre.cli.sessions.context import print_layers, print_spending, teammate_rows
    from nacre.inspect.context_usage import contents_now

    if (spending := scene.ready.background.spending) is not None:
        await spending.settle()
    found = contents_now(scene.session)
    meter = found.meter
    usage = meter.usage
    warm = ("of that to keep the cache warm", f"${meter.refresh_usd:.4f}")
    print_table(
        [
            ("requests", str(meter.requests)),
            *([("thinking", level)] if (level := scene.session.settings.thinking) else []),
            ("input", human_count(usage.input)),
            ("written to the cache", human_count(usage.cache_write)),
            ("read from the cache", human_count(usage.cache_read)),
            ("output", human_count(usage.output)),
            ("cache hit rate", f"{usage.hit_rate:.1%}"),
            ("money", meter.price()),
            *([warm] if meter.refresh_usd else []),
            *teammate_rows(meter, found.teammates),
        ],
        right=(1,),
    )
    if meter.unpriced:
        print(f"{meter.unpriced} requests went to a model without a known price; that is not included")
    print_spending(found)
    print_layers(found.layers)


def _clear(_: str, scene: SlashContext) -> Ending:
    session = scene.session
    stays = bool(session.view.items) and not isinstance(session.writer, NullRecordWriter)
    print(f"new session; the old one stays: /resume {session.id[:8]}" if stays else "new session")
    return Reopen(None if isinstance(session.writer, NullRecordWriter) else NEW, is_clear=True)


def _resume(wanted: str, scene: SlashContext) -> Ending:
    session = scene.session
    settings = scene.settings
    if wanted:
        found = session_store(session, settings).find(wanted).stem
        if found == session.id:
            print("you are in that session")
            return None
        return Reopen(found)
    now = SYSTEM_CLOCK.now()
    listed = other_sessions(session, settings)
    print_table(
        [
            (each.session[:8], human_age(each.modified, now), f"{each.messages} messages", each.title or "")
            for each in listed[:10]
        ]
    )
    print("type /resume ID" if listed else "there is no other session in this directory")
    return None


async def _rewind(wanted: str, scene: SlashContext) -> Ending:
    """Return to before a message: its number, then what to restore (both by default)."""
    rewind = scene.ready.rewind
    points = rewind.points()
    number, _, what = wanted.partition(" ")
    if not wanted:
        now = SYSTEM_CLOCK.now()
        rows = [
            (str(n), human_age(one.at, now), _files(len(one.files)), shorten(one.words, WORDS_CHARS))
            for n, one in enumerate(points, 1)
        ]
        print_table(rows, right=(0,))
        hint = "/rewind N undoes that message and all after it; changes made by shell commands stay"
        print(hint if points else "there is no message yet")
        return None
    is_point = number.isdecimal() and 1 <= int(number) <= len(points)
    if not is_point or what not in {"", "files", "conversation"}:
        print_error("type /rewind N, /rewind N files or /rewind N conversation; /rewind lists the numbers")
        return None
    point = points[int(number) - 1]
    if what != "conversation":
        restored = await rewind.restore(point)
        print(f"restored {_files(len(restored))}")
        for path in restored:
            print(f"  {printable(str(path))}")
    if what == "files":
        return None
    await rewind.forget(point)
    print(f"the conversation was rewound to before: {shorten(printable(point.words), WORDS_CHARS)}")
    return Rewound(point.words)


def _files(count: int) -> str:
    return f"{count} file" + "s" * (count != 1)


def _retry(_: str, scene: SlashContext) -> None:
    last = scene.session.view.last_reply
    if not scene.session.view.items:
        print("there is no message yet")
    elif last is not None and not last.tool_calls:
        print("the last turn is finished; type a message")
    else:
        scene.go_on(scene.ready)


def _recall(text: str, scene: SlashContext) -> None:
    """Show why the last message got its memories; with words, what they would get (R10)."""
    recalled = scene.run(recall_once(scene.settings, text)) if text else scene.ready.recalled()
    print("\n".join(recalled_lines(recalled)) if recalled else "nothing was recalled yet; /recall TEXT tries")


def _model(name: str, scene: SlashContext) -> Ending:
    from nacre.cli.chat.slash_model import model

    return model(scene.ready, scene.settings, name)


def _think(level: str, scene: SlashContext) -> None:
    from nacre.cli.chat.slash_model import think

    think(scene.ready, level)


def _mode(name: str, scene: SlashContext) -> None:
    from nacre.cli.chat.slash_model import mode

    mode(scene.ready, name)


async def _forget(text: str, scene: SlashContext) -> None:
    from nacre.cli.chat.slash_memory import forget

    await forget(scene.ready, text)


async def _correct(text: str, scene: SlashContext) -> None:
    from nacre.cli.chat.slash_memory import correct

    await correct(scene.ready, text)


async def _remember(text: str, scene: SlashContext) -> None:
    from nacre.cli.chat.slash_memory import remember

    await remember(scene.ready, text, is_daily=scene.settings.memory.mode == "daily")


async def _confirm(text: str, scene: SlashContext) -> None:
    from nacre.cli.chat.slash_memory import confirm

    await confirm(scene.ready, text)


async def _memory(text: str, scene: SlashContext) -> None:
    from nacre.cli.chat.slash_memory import saved_here

    await saved_here(scene.ready, text)


def _compact(text: str, scene: SlashContext) -> Ending:
    if text != UNDO:
        try:
            scene.run(compact_now(scene.ready, text))
        except KeyboardInterrupt:
            print_error("stopped; the conversation is unchanged")
        return None
    scene.run(take_back(scene.ready))
    return None


COMMANDS: dict[str, SlashCommand] = {
    "help": SlashCommand(
        lambda *_: print_table([(f"/{name}", command.summary) for name, command in COMMANDS.items()]),
        "this list",
        runs_at_once=True,
    ),
    "context": SlashCommand(_context, "context usage, and what each layer saved", runs_at_once=True),
    "cost": SlashCommand(_cost, "tokens and cost of this session, spent and saved", runs_at_once=True),
    "model": SlashCommand(_model, "continue with another model: /model NAME; without NAME lists them"),
    "think": SlashCommand(_think, "how much the model thinks: /think off, low, medium, high or auto"),
    "mode": SlashCommand(
        _mode, "what needs no question: /mode ask, accept edits, plan or read only", runs_at_once=True
    ),
    "compact": SlashCommand(_compact, "replace older messages by a summary: /compact [focus], /compact undo"),
    "clear": SlashCommand(_clear, "start an empty session; the old one can be resumed"),
    "resume": SlashCommand(_resume, "continue another session: /resume ID; without ID lists them"),
    "rewind": SlashCommand(_rewind, "undo: /rewind N [files|conversation]; without N lists the points"),
    "retry": SlashCommand(_retry, "repeat the request after a failure"),
    "tasks": SlashCommand(
        lambda _, scene: print(visible(str(scene.ready.toolset.board))), "the task list", runs_at_once=True
    ),
    "plan": SlashCommand(
        lambda text, scene: plan(scene.ready.plan, text, scene.run),
        "the plan of this session: /plan TEXT sets it, /plan edit, /plan clear",
    ),
    "recall": SlashCommand(
        _recall, "memories of the last message, and why; /recall TEXT tries a text", runs_at_once=True
    ),
    "remember": SlashCommand(_remember, "save a memory in your words: /remember TEXT, or #TEXT"),
    "forget": SlashCommand(_forget, "forget an attached memory: /forget N; without N lists them"),
    "correct": SlashCommand(_correct, "replace the text of an attached memory: /correct N TEXT"),
    "confirm": SlashCommand(_confirm, "confirm the memory saved last as unverified; /confirm all"),
    "memory": SlashCommand(_memory, "memories this conversation saved or changed; /memory undo"),
    "dream": SlashCommand(
        lambda text, scene: dream_now(scene.ready, text),
        "consolidate memory in the background; /dream status, /dream kill",
        runs_at_once=True,
    ),
    "agents": SlashCommand(
        lambda text, scene: agents_now(scene.ready, text),
        "running agents; /agents show NAME, /agents stop NAME",
        runs_at_once=True,
    ),
    "pin": SlashCommand(
        lambda text, scene: pin_result(scene.session, text),
        "keep a tool result in view: /pin N or /pin last; without N lists them",
    ),
    "unpin": SlashCommand(
        lambda text, scene: unpin_result(scene.session, text),
        "unpin a result: /unpin N; without N lists them",
    ),
    "exit": SlashCommand(lambda *_: Leave(), "leave (also Ctrl-D)", runs_at_once=True),
    "quit": SlashCommand(lambda *_: Leave(), "leave, as /exit", runs_at_once=True),
}
UNDO = "undo"


async def compact_now(ready: OpenedAgent, focus: str) -> None:
    """`/compact [focus]`: compact now and report the result."""
    session = ready.agent.session
    with print_spent(session):
        try:
            async with progress() as say:
                done = await ready.compact.compact(CompactionRequest(focus=focus, on_progress=say))
        finally:
            for notice in session.notices():
                print_error(notice.text)
        words = ready.compact.overflow.where.words
        undo = f"/compact {UNDO} takes this back"
        print("\n".join(compaction_lines(done, session.id, undo=undo, words_file=words)))


async def take_back(ready: OpenedAgent) -> None:
    """`/compact undo`: undo the newest compaction."""
    record = await undo_compaction(ready.agent.session)
    if record is None:
        print("there is no compaction to undo")
    else:
        print(f"undid the compaction of {record.at.astimezone():%H:%M:%S}")


KILL = "kill"
STATUS = "status"


async def dream_now(ready: OpenedAgent, text: str) -> None:
    """Start a dream, or apply the words after `/dream` to the one that is running."""
    dreaming = ready.dream
    if dreaming is None:
        print_error("dreams are switched off, or there is no memory here; `nacre doctor` says which")
    elif text == KILL:
        is_ended = await ready.background.cancel(WORK)
        print("the dream was stopped; memory is unchanged" if is_ended else "no dream is running here")
    elif text == STATUS:
        state = dreaming.last
        lines = status_lines(state, dreaming.consolidated, {})
        for line in (*lines, *(report_lines(state) if state.status == "completed" else ())):
            print(printable(line))
    elif text:
        print_error("type /dream, /dream status or /dream kill")
    elif dreaming.begin():
        print("a dream has started in the background; /dream status shows its progress")
    else:
        print("a dream is already running; /dream status shows its progress")


STOP = "stop"
SHOW = "show"


async def agents_now(ready: OpenedAgent, text: str) -> None:
    """List agents, or apply the words after `/agents` to one."""
    team = ready.team
    if team is None:
        print_error("agents are switched off (switches.agents)")
        return
    what, _, name = text.partition(" ")
    name = name.strip()
    if not text:
        if ready.background.spending is not None:
            await ready.background.spending.settle()  # teammates may have spent more meanwhile
        _list(team)
    elif what not in {STOP, SHOW} or not name:
        print_error("type /agents, /agents show NAME or /agents stop NAME")
    else:
        try:
            state = team.shared.registry.find(name)
            print(await end_agent(ready, state)) if what == STOP else _show(state)
        except ToolError as error:
            print_error(str(error))


def _list(team: Team) -> None:
    states = team.states()
    if not states:
        print("no agent was started in this session yet")
        return
    print_agents(states, SYSTEM_CLOCK.now())
    if any(each.is_running for each in states):
        print("/agents show NAME shows a report, /agents stop NAME stops an agent")


def _show(state: AgentState) -> None:
    task = printable(state.description) or "no description"
    if state.is_running:
        print(f"{printable(state.name)} ({printable(state.type)}): {task}")
        print(f"at work: {printable(state.doing) or 'starting'}")
        return
    print(f"{printable(state.name)} {ENDED.get(state.status, state.status)}: {task}")
    for line in state.result.strip().splitlines():
        print(f"  {printable(line)}")
    if state.worktree:
        print(f"what it changed is in {printable(state.worktree)} (branch {printable(state.branch)})")


def print_agents(states: Sequence[AgentState], now: datetime) -> None:
    """Print a row per agent, oldest first."""
    print_table(
        [
            [
                each.name,
                each.type,
                each.status,
                human_age(each.started, now),
                human_count(each.tokens),
                usd_text(each.cost_usd),
                (each.doing if each.is_running else "") or each.description or "-",
            ]
            for each in states
        ],
        header=["name", "type", "status", "age", "tokens", "money", "doing"],
        right=(4, 5),
    )


EDIT = "edit"
CLEAR = "clear"
Run = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine in the session's event loop and waits for it."""


def plan(planning: Plan, text: str, run: Run) -> None:
    """Apply the words after `/plan`; without any, show the plan."""
    try:
        now: str = run(planning.read())
    except StoreError as error:
        if text != CLEAR:
            raise
        print_error(f"{error}; it is removed now")
        now = CLEAR  # there is content that cannot be read
    if not text:
        hint = "there is no plan; /plan TEXT sets one, /plan edit opens your editor"
        for line in now.splitlines() if now.strip() else [hint]:
            print(printable(line))
    elif text == CLEAR:
        run(planning.write(""))
        print("the plan is removed" if now.strip() else "there was no plan")
    else:
        new = _edited(now) if text == EDIT else text
        if new.strip() == now.strip():
            print("the plan is unchanged")
            return
        try:
            run(planning.write(new))
        except StoreError as error:
            copy = f", your text is in {put_aside(new.encode(), 'plan.md')}" if text == EDIT else ""
            raise StoreError(f"{error}; the plan is unchanged{copy}") from error
        where = f" ({planning.path})" if planning.path else ""
        done = f"the plan is set{where}; the model sees it with your next message"
        print(printable(done if new.strip() else "the plan is removed"))


def _edited(text: str) -> str:
    """Return the text from the user's editor."""
    with tempfile.TemporaryDirectory(prefix="nacre-") as folder:
        copy = Path(folder) / "plan.md"
        copy.write_text(text, encoding="utf-8")
        edited_by_hand(copy)
        try:
            return copy.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise NacreError(f"the edited file cannot be read: {error}; the plan is unchanged") from None


LISTED = 20
"""Number of results listed, newest first; older ones are cleared first."""
SHOWN_CHARS = 50
"""Characters of a call in the list, so that a row has at most 80 columns."""
LAST = "last"


async def pin_result(session: Session, wanted: str) -> None:
    """`/pin last` or `/pin N`: keep that result; without an argument, list results."""
    results = _numbered(session)
    if not results:
        print("there is no tool result in view yet")
    elif not wanted:
        _list_results(dict(list(results.items())[-LISTED:]), pinned(session.view))
        print("/pin N or /pin last protects a result from being cleared, /unpin N ends that")
    elif (found := _selected(results, wanted)) is not None:
        await session.transcript.append(pin(found.id, session.clock))
        print(printable(f"pinned: {shorten(shown(found), SHOWN_CHARS)}"))


async def unpin_result(session: Session, wanted: str) -> None:
    """`/unpin N`: allow that result to be cleared; without an argument, list pinned ones."""
    on = pinned(session.view)
    results = {number: one for number, one in _numbered(session).items() if one.id in on}
    if not results:
        print("no result in view is pinned")
    elif not wanted:
        _list_results(results, on)
        print("/unpin N unpins one")
    elif (found := _selected(results, wanted)) is not None:
        await session.transcript.append(pin(found.id, session.clock, on=False))
        print(printable(f"let go: {shorten(shown(found), SHOWN_CHARS)}"))


def _numbered(session: Session) -> dict[int, AnsweredCall]:
    """Return the results in view, oldest first, numbered from the newest."""
    results = answered_calls(session.view.items)
    return {len(results) - place: one for place, one in enumerate(results)}


def _list_results(results: dict[int, AnsweredCall], on: frozenset[str]) -> None:
    print_table(
        [
            (
                str(number),
                f"{human_count(one.tokens)} tokens",
                "pinned" if one.id in on else "",
                printable(shorten(shown(one), SHOWN_CHARS)),
            )
            for number, one in results.items()
        ],
        right=(0, 1),
    )


def _selected(results: dict[int, AnsweredCall], wanted: str) -> AnsweredCall | None:
    """Return the result with this number, call id or unique part of a call id."""
    if wanted == LAST:
        return list(results.values())[-1]
    if wanted.isdecimal() and int(wanted) in results:
        return results[int(wanted)]
    ids = [] if wanted.isdecimal() else list(results.values())
    found = [one for one in ids if one.id == wanted] or [one for one in ids if wanted in one.id]
    if len(found) == 1:
        return found[0]
    print_error(f"{'several results match' if found else 'no result matches'} {wanted!r}; /pin lists them")
    return None
