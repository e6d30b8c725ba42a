"""Slash commands of a chat."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple

from nacre.app.chat_session import Ending, Leave, Reopen, other_sessions, session_store
from nacre.app.open_agent import NEW, OpenedAgent
from nacre.cli.memory.dream import report_lines, status_lines
from nacre.cli.memory.recall import recalled_lines
from nacre.cli.output import human_age, human_count, print_error, print_table, printable
from nacre.cli.sessions.compact_output import compaction_lines, progress
from nacre.clock import SYSTEM_CLOCK
from nacre.formatting import shorten
from nacre.layers.l4_compact.layer import undo_compaction
from nacre.layers.l6_dream.layer import WORK
from nacre.session.compaction import CompactionRequest
from nacre.session.rewind import RewindPoint
from nacre.session.session import Session
from nacre.session.session_log import NullRecordWriter
from nacre.settings import Settings

WORDS_CHARS = 60
"""Characters of a message in a list."""


@dataclass(frozen=True, slots=True)
class Scene:
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

    act: Callable[[str, Scene], Ending]
    summary: str


def obey(line: str, scene: Scene) -> Ending:
    """Run a line that begins with a slash; the result tells the chat whether to open another session."""
    name, _, rest = line[1:].strip().partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        print_error(f"no command /{name}; /help lists them (put a space before a message that begins with /)")
        return None
    return command.act(rest.strip(), scene)


def _help(_: str, __: Scene) -> Ending:
    print_table([(f"/{name}", command.summary) for name, command in COMMANDS.items()])
    return None


def _context(_: str, scene: Scene) -> Ending:
    from nacre.cli.sessions.context import print_contents
    from nacre.inspect.context_usage import contents_now

    print_contents(contents_now(scene.session))
    return None


def _cost(_: str, scene: Scene) -> Ending:
    from nacre.cli.sessions.context import print_layers
    from nacre.inspect.context_usage import contents_now

    meter = scene.session.meter
    usage = scene.session.meter.usage
    warm = ("of that to keep the cache warm", f"${meter.refresh_usd:.4f}")
    print_table(
        [
            ("requests", str(meter.requests)),
            ("input", human_count(usage.input)),
            ("written to the cache", human_count(usage.cache_write)),
            ("read from the cache", human_count(usage.cache_read)),
            ("output", human_count(usage.output)),
            ("cache hit rate", f"{usage.hit_rate:.1%}"),
            ("money", f"{meter.about}${meter.cost_usd:.4f}"),
            *([warm] if meter.refresh_usd else []),
        ],
        right=(1,),
    )
    if meter.unpriced:
        print(f"{meter.unpriced} requests went to a model without a known price and count as $0")
    print_layers(contents_now(scene.session).layers)
    return None


def _clear(_: str, scene: Scene) -> Ending:
    session = scene.session
    stays = bool(session.view.items) and not isinstance(session.writer, NullRecordWriter)
    print(f"new session; the old one stays: /resume {session.id[:8]}" if stays else "new session")
    return Reopen(None if isinstance(session.writer, NullRecordWriter) else NEW, is_clear=True)


def _resume(wanted: str, scene: Scene) -> Ending:
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


def _rewind(wanted: str, scene: Scene) -> Ending:
    """Return to before a message: its number, then what to restore (both by default)."""
    points = scene.ready.rewind.points()
    number, _, what = wanted.partition(" ")
    if not wanted:
        _list_points(points)
        return None
    if not (number.isdecimal() and 1 <= int(number) <= len(points)) or what not in {
        "",
        "files",
        "conversation",
    }:
        print_error("type /rewind N, /rewind N files or /rewind N conversation; /rewind lists the numbers")
        return None
    point = points[int(number) - 1]
    if what != "conversation":
        restored = scene.run(scene.ready.rewind.restore(point))
        print(f"restored {_files(len(restored))}" + "".join(f"\n  {path}" for path in restored))
    if what != "files":
        scene.run(scene.ready.rewind.forget(point))
        print(f"the conversation was rewound to before: {shorten(point.words, WORDS_CHARS)}")
    return None


def _list_points(points: list[RewindPoint]) -> None:
    now = SYSTEM_CLOCK.now()
    print_table(
        [
            (str(n), human_age(point.at, now), _files(len(point.files)), shorten(point.words, WORDS_CHARS))
            for n, point in enumerate(points, 1)
        ],
        right=(0,),
    )
    if not points:
        print("there is no message yet")
    else:
        print("/rewind N undoes that message and all after it; changes made by shell commands stay")


def _files(count: int) -> str:
    return f"{count} file" + "s" * (count != 1)


def _retry(_: str, scene: Scene) -> Ending:
    last = scene.session.view.last_reply
    if not scene.session.view.items:
        print("there is no message yet")
        return None
    if last is not None and not last.tool_calls:
        print("the last turn is finished; type a message")
        return None
    scene.go_on(scene.ready)
    return None


def _tasks(_: str, scene: Scene) -> Ending:
    print(scene.ready.toolset.board)
    return None


def _plan(text: str, scene: Scene) -> Ending:
    from nacre.cli.chat.slash_plan import plan

    plan(scene.ready.plan, text, scene.run)
    return None


def _recall(text: str, scene: Scene) -> Ending:
    """Show why the last message got its memories; with words, what they would get (R10)."""
    if text:
        from nacre.app.recall_once import recall_once

        recalled = scene.run(recall_once(scene.settings, text))
    else:
        recalled = scene.ready.recalled()
    print("\n".join(recalled_lines(recalled)) if recalled else "nothing was recalled yet; /recall TEXT tries")
    return None


def _forget(text: str, scene: Scene) -> Ending:
    from nacre.cli.chat.slash_memory import forget

    scene.run(forget(scene.ready, text))
    return None


def _correct(text: str, scene: Scene) -> Ending:
    from nacre.cli.chat.slash_memory import correct

    scene.run(correct(scene.ready, text))
    return None


def _memory(text: str, scene: Scene) -> Ending:
    from nacre.cli.chat.slash_memory import saved_here

    scene.run(saved_here(scene.ready, text))
    return None


def _pin(text: str, scene: Scene) -> Ending:
    from nacre.cli.chat.slash_results import pin_result

    scene.run(pin_result(scene.session, text))
    return None


def _unpin(text: str, scene: Scene) -> Ending:
    from nacre.cli.chat.slash_results import unpin_result

    scene.run(unpin_result(scene.session, text))
    return None


def _compact(text: str, scene: Scene) -> Ending:

    if text != UNDO:
        try:
            scene.run(compact_now(scene.ready, text))
        except KeyboardInterrupt:
            print_error("stopped; the conversation is unchanged")
        return None
    is_back = scene.run(take_back(scene.ready))
    # A resumed session holds only what follows the compaction; the log has the rest.
    is_kept = not isinstance(scene.session.writer, NullRecordWriter)
    return Reopen(scene.session.id) if is_back and is_kept else None


def _dream(text: str, scene: Scene) -> Ending:

    scene.run(dream_now(scene.ready, text))
    return None


def _agents(text: str, scene: Scene) -> Ending:
    from nacre.cli.chat.slash_agents import agents_now

    scene.run(agents_now(scene.ready, text))
    return None


def _exit(_: str, __: Scene) -> Ending:
    return Leave()


COMMANDS = {
    "help": SlashCommand(_help, "this list"),
    "context": SlashCommand(_context, "context usage, and what each layer saved"),
    "cost": SlashCommand(_cost, "tokens and cost of this session, spent and saved"),
    "compact": SlashCommand(_compact, "replace older messages by a summary: /compact [focus], /compact undo"),
    "clear": SlashCommand(_clear, "start an empty session; the old one can be resumed"),
    "resume": SlashCommand(_resume, "continue another session: /resume ID; without ID lists them"),
    "rewind": SlashCommand(_rewind, "undo: /rewind N [files|conversation]; without N lists the points"),
    "retry": SlashCommand(_retry, "repeat the request after a failure"),
    "tasks": SlashCommand(_tasks, "the task list"),
    "plan": SlashCommand(_plan, "the plan of this session: /plan TEXT sets it, /plan edit, /plan clear"),
    "recall": SlashCommand(_recall, "memories of the last message, and why; /recall TEXT tries a text"),
    "forget": SlashCommand(_forget, "forget an attached memory: /forget N; without N lists them"),
    "correct": SlashCommand(_correct, "replace the text of an attached memory: /correct N TEXT"),
    "memory": SlashCommand(_memory, "memories this conversation saved or changed; /memory undo"),
    "dream": SlashCommand(_dream, "consolidate memory in the background; /dream status, /dream kill"),
    "agents": SlashCommand(_agents, "running agents; /agents show NAME, /agents stop NAME"),
    "pin": SlashCommand(_pin, "keep a tool result in view: /pin N or /pin last; without N lists them"),
    "unpin": SlashCommand(_unpin, "unpin a result: /unpin N; without N lists them"),
    "exit": SlashCommand(_exit, "leave (also Ctrl-D)"),
}


UNDO = "undo"


async def compact_now(ready: OpenedAgent, focus: str) -> None:
    """`/compact [focus]`: compact now and report the result."""
    session = ready.agent.session
    try:
        async with progress() as say:
            done = await ready.compact.compact(CompactionRequest(focus=focus, on_progress=say))
    finally:
        for notice in session.notices():
            print_error(notice.text)
    words = ready.compact.overflow.where.words
    undo = f"/compact {UNDO} takes this back"
    print("\n".join(compaction_lines(done, session.id, undo=undo, words_file=words)))


async def take_back(ready: OpenedAgent) -> bool:
    """`/compact undo`: undo the newest compaction; returns whether there was one."""
    session = ready.agent.session
    record = await undo_compaction(session)
    if record is None:
        print("there is no compaction to undo")
        return False
    print(f"undid the compaction of {record.at.astimezone():%H:%M:%S}")
    return True


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
    elif dreaming.begin():
        print("a dream has started in the background; /dream status shows its progress")
    else:
        print("a dream is already running; /dream status shows its progress")
