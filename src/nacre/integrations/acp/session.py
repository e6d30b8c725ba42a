"""One session of a client: prompts, commands, permissions, modes and models."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from acp import helpers
from acp.exceptions import RequestError
from acp.interfaces import Client
from acp.schema import (
    AllowedOutcome,
    AvailableCommand,
    AvailableCommandInput,
    ConfigOptionUpdate,
    FileEditToolCallContent,
    PermissionOption,
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionInfoUpdate,
    SessionMode,
    SessionModeState,
    ToolCallUpdate,
    UnstructuredCommandInput,
    UsageUpdate,
)

from nacre.agents.toolset import GO, MEANS, MODES, PermissionMode
from nacre.app.chat_session import OpenedChat, open_chat, switch_session
from nacre.app.endings import Reopen, Rewound
from nacre.app.model_switch import AUTO, offered_models, settings_for
from nacre.app.open_agent import NEW, OpenedAgent
from nacre.app.session_text import failed_line
from nacre.app.slash_commands import SlashCommands, SlashRunner
from nacre.context.plan import proposed_plan
from nacre.errors import NacreError, ToolError
from nacre.formatting import fenced, shorten
from nacre.integrations.acp.editor_files import CLIENT_ERRORS, EditorFiles
from nacre.integrations.acp.prompt import Prompt, PromptBlock, read_prompt
from nacre.integrations.acp.transport import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from nacre.integrations.acp.updates import (
    KINDS,
    TASK_LIST,
    Content,
    ToolCallView,
    Update,
    interrupted,
    message,
    notice_chunk,
    plan_update,
    replay,
    update_of,
    usage_update,
)
from nacre.messages.blocks import Image, ToolCall
from nacre.messages.events import Event, Outcome, Reply, ToolCallEvent, ToolResultEvent, TurnDone
from nacre.session.log_writer import SessionLogWriter
from nacre.session.read_session import read_log
from nacre.settings import Settings
from nacre.store.input_history import remember_command
from nacre.store.session_log import SessionLog
from nacre.tools.guard import PermissionAnswer, PermissionQuestion, file_change
from nacre.tools.run import RUNNING
from nacre.tools.workspace import in_thread

StopReason: TypeAlias = Literal["end_turn", "max_turn_requests", "cancelled"]
ConfigOption: TypeAlias = SessionConfigOptionSelect | SessionConfigOptionBoolean
STOP_REASONS: dict[Outcome, StopReason] = {
    "answered": "end_turn",
    "empty": "end_turn",
    "turn_limit": "max_turn_requests",
    "refused": "end_turn",  # after a refusal clients drop the turn, which the session keeps
}
NOT_OFFERED = frozenset({"clear", "exit", "quit", "resume"})
"""Commands for which a client has a button of its own."""
BUSY = "a turn of this session is running; wait until it ends, or cancel it"
TITLE_CHARS = 80
MAX_DIFF_CHARS = 500_000
"""Of a file whose whole text is sent with a change; of a longer one only the changed text is."""
PLAN_ANSWERS: dict[str, PermissionMode] = {"ask": "ask", "edits": "accept edits"}
PLAN_OPTIONS = (
    PermissionOption(option_id="edits", name="Carry it out, and accept edits", kind="allow_always"),
    PermissionOption(option_id="ask", name="Carry it out, and ask before edits", kind="allow_once"),
    PermissionOption(option_id="no", name="Keep planning", kind="reject_once"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStart:
    """What a session is opened with."""

    settings: Settings
    commands: Callable[[Settings], SlashCommands]
    directories: tuple[Path, ...] = ()
    """Further folders in which tools may work."""
    uses_editor_files: bool = False
    """Whether the client reads and writes text files."""
    one_command: asyncio.Lock = field(default_factory=asyncio.Lock)


class AcpSession:
    """An open session and its client; create it with `open`."""

    def __init__(self, client: Client, start: SessionStart) -> None:
        self._client = client
        self._start = start
        self._settings = replace(start.settings, is_interactive=True)
        self._slash = start.commands(self._settings)
        self._runner = SlashRunner(start.one_command)
        self._calls = ToolCallView(start.settings.cwd)
        self._open_calls: dict[str, ToolCall] = {}
        """Calls that the client knows and that are not answered."""
        self._numbers = itertools.count(1)
        self._changed: dict[Path, str] = {}
        """The text of files before the change that runs."""
        self._turn: asyncio.Task[StopReason] | None = None
        self._is_cancelled = False
        self._is_in_command = False
        self._has_title = False
        self._usage: UsageUpdate | None = None
        self._unsaid: list[str] = []
        """Lines for the first turn."""
        self.id = ""
        self._chat: OpenedChat

    @property
    def ready(self) -> OpenedAgent:
        return self._chat.ready

    async def open(self, known: str = "") -> None:
        """Open the session that the client knows by this id, or a new one; raises `NacreError`.

        One that is open in another process continues as a branch, which the client knows by the same id.
        """
        self._chat = await self._enter(known or NEW)
        self.id = known or self.ready.agent.session.id
        if self._start.uses_editor_files:
            settings = self._settings
            roots = (settings.cwd, settings.project_root, *self._start.directories)
            self._editor = EditorFiles(self._client, self.id, roots)
        self._attach()
        self._unsaid += [*(one.line for one in self._settings.problems), *self.ready.notices]
        choice = self.ready.choice
        if choice is not None and choice.offer:
            self._unsaid += [choice.reason, choice.offer]

    def at(self, cwd: Path) -> AcpSession:
        """Return this session, which works in one directory; raises `RequestError` for another one."""
        if cwd != self._settings.cwd:
            where = str(self._settings.cwd)
            raise RequestError(INVALID_REQUEST, f"the session is open in {where}; close it there first")
        return self

    async def close(self) -> None:
        """Stop the turn and close the session; waits for its background work."""
        await self.cancel()
        if self._turn is not None:
            await asyncio.wait({self._turn})
        self._chat.set_end_reason("other")
        await self._chat.held.aclose()

    async def _enter(self, wanted: str | None) -> OpenedChat:
        return await open_chat(self._settings, wanted, ask=self._ask, on_countdown=_ignore)

    def _attach(self) -> None:
        """Connect the tools of the open session with the client."""
        toolset = self.ready.toolset
        toolset.open_to(self._start.directories)
        if self._start.uses_editor_files:
            self._editor.attach(toolset.workspace)
        before = toolset.workspace.before_change

        async def keep(path: Path) -> None:
            unsaved = await toolset.workspace.unsaved(path)
            text = await in_thread(lambda _: _text_of(path)) if unsaved is None else _decoded(unsaved)
            if text is not None:
                self._changed[path] = text
            await before(path)

        toolset.workspace.before_change = keep

    # Turns

    async def prompt(self, blocks: Sequence[PromptBlock]) -> StopReason:
        """Answer a prompt; raises `RequestError` if the turn fails."""
        if self._turn is not None:
            raise RequestError(INVALID_REQUEST, BUSY)
        self._is_cancelled = False
        # Without a pause before it, so that a cancellation right after the prompt finds the turn.
        self._turn = turn = asyncio.create_task(self._answer(blocks), name="turn of a client")
        try:
            await asyncio.wait({turn})
        except asyncio.CancelledError:
            turn.cancel()
            await asyncio.wait({turn})
            raise
        finally:
            self._turn = None
            await self._end_calls()
        if turn.cancelled() or self._is_cancelled:
            return "cancelled"
        return turn.result()

    async def cancel(self) -> None:
        """Stop the turn or the command that runs; nothing to stop is no error."""
        if self._turn is None:
            return
        self._is_cancelled = True
        if self._is_in_command:
            self._runner.stop()  # a command that waits for nothing is over soon
        else:
            self._turn.cancel()

    async def _answer(self, blocks: Sequence[PromptBlock]) -> StopReason:
        try:
            prompt = await asyncio.to_thread(read_prompt, blocks)
        except ValueError as error:
            raise RequestError(INVALID_PARAMS, str(error)) from error
        try:
            for line in self._unsaid:
                await self.update(notice_chunk(line))
            self._unsaid.clear()
            command = self._command(prompt)
            if command:
                return await self._obey(command)
            await self._set_title(prompt.text)
            outcome = await self._stream(prompt.text, prompt.images)
            return STOP_REASONS[await self._offer_plan(outcome)]
        except NacreError as error:
            raise RequestError(INTERNAL_ERROR, failed_line(error)) from error

    async def _stream(self, text: str | None, images: Sequence[Image] = ()) -> Outcome:
        outcome: Outcome = "empty"
        async with aclosing(self.ready.agent.stream(text, images=images)) as events:
            async for event in events:
                await self._show(event)
                if isinstance(event, TurnDone):
                    outcome = event.outcome
        return outcome

    async def _show(self, event: Event) -> None:
        match event:
            case ToolCallEvent(call) if call.name != TASK_LIST:
                self._open_calls[call.id] = call
                await self.update(self._calls.started(call))
            case ToolResultEvent(call, result):
                self._open_calls.pop(call.id, None)
                if call.name == TASK_LIST:
                    await self.update(plan_update(self.ready.toolset.board.tasks))
                    return
                diff = None if result.is_error else await self._diff_after(call)
                await self.update(self._calls.finished(call, result, diff))
            case _:
                if (update := update_of(event, self._calls)) is not None:
                    await self.update(update)
                if isinstance(event, Reply | TurnDone):
                    await self._show_usage()

    async def _end_calls(self) -> None:
        """Show that calls which were not answered never will be."""
        calls = list(self._open_calls)
        self._open_calls.clear()
        self._changed.clear()
        for call_id in calls:
            await self.update(interrupted(call_id))

    async def _diff_after(self, call: ToolCall) -> FileEditToolCallContent | None:
        """Return the change that a call has made, as whole texts."""
        if call.name not in {"Edit", "Write"}:
            return None
        try:
            path = self.ready.toolset.workspace.aim(str(call.input.get("file_path", "")))
        except ToolError:
            return None
        before = self._changed.pop(path, None)
        after = await in_thread(lambda _: _text_of(path))
        return helpers.tool_diff_content(str(path), after, before) if after is not None else None

    async def _show_usage(self) -> None:
        session = self.ready.agent.session
        usd = session.meter.cost_usd if not session.meter.unpriced else None
        update = usage_update(session.tokens, session.window, usd)
        if update != self._usage:
            self._usage = update
            await self.update(update)

    async def _set_title(self, text: str) -> None:
        """Name a new session after its first message, as lists of sessions do."""
        if not self._has_title and not self.ready.agent.session.view.items:
            title = shorten(" ".join(text.split()), TITLE_CHARS)
            await self.update(SessionInfoUpdate(session_update="session_info_update", title=title))
        self._has_title = True

    async def _offer_plan(self, outcome: Outcome) -> Outcome:
        """Ask whether the plan that the model proposes in plan mode is to be carried out."""
        reply = self.ready.agent.session.view.last_reply
        plan = proposed_plan(reply.text) if reply is not None and self.ready.modes.mode == "plan" else ""
        if not plan:
            return outcome
        call = ToolCallUpdate(
            tool_call_id=f"plan-{len(self.ready.agent.session.transcript.records)}",
            title="Carry out the plan?",
            kind="switch_mode",
            status="pending",
            content=[helpers.tool_content(helpers.text_block(plan))],
        )
        mode = PLAN_ANSWERS.get(await self._chosen(call, PLAN_OPTIONS))
        if mode is None:
            return outcome
        await self.ready.modes.accept(plan, mode)
        await self.show_mode()
        return await self._stream(GO)

    # Permissions

    async def _ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """Ask the person; a client that cannot be reached says no."""
        running = RUNNING.get()
        is_own = running is not None and running.id in self._open_calls
        call = running or ToolCall(f"question-{next(self._numbers)}", question.tool, question.arguments)
        if not is_own:  # an agent asks, whose calls are not shown otherwise
            await self.update(self._calls.started(call, "pending"))
        diff = await self._diff_before(question)
        shown: Content = diff or helpers.tool_content(
            helpers.text_block(fenced(question.preview, "sh" * (question.tool == "Bash")))
        )
        update = ToolCallUpdate(
            tool_call_id=call.id,
            title=self._calls.title(question.tool, question.arguments),
            kind=KINDS.get(question.tool, "other"),
            status="pending",
            content=[helpers.tool_content(helpers.text_block(question.reason)), shown],
            locations=self._calls.locations(question.tool, question.arguments),
            raw_input=question.arguments,
        )
        chosen = await self._chosen(update, _options(question.rule.text))
        answers: dict[str, PermissionAnswer] = {"once": "once", "always": "always", "never": "never"}
        answer = answers.get(chosen, "no")
        is_allowed = answer in {"once", "always"}
        if is_own and is_allowed:
            await self.update(helpers.update_tool_call(call.id, status="in_progress"))
        elif not is_own:
            await self.update(
                helpers.update_tool_call(call.id, status="completed" if is_allowed else "failed")
            )
        return answer

    async def _chosen(self, call: ToolCallUpdate, options: Sequence[PermissionOption]) -> str:
        """Return the id of the option that the person chose; empty if they chose none."""
        try:
            answer = await self._client.request_permission(
                session_id=self.id, tool_call=call, options=list(options)
            )
        except CLIENT_ERRORS:
            return ""
        return answer.outcome.option_id if isinstance(answer.outcome, AllowedOutcome) else ""

    async def _diff_before(self, question: PermissionQuestion) -> FileEditToolCallContent | None:
        """Return what a call would change, as whole texts."""
        if question.tool not in {"Edit", "Write"}:
            return None
        named = str(question.arguments.get("file_path", ""))
        workspace = self.ready.toolset.workspace
        try:
            path = workspace.aim(named)
            unsaved = await workspace.unsaved(path)
            change = await in_thread(
                lambda _: file_change(question.tool, question.arguments, path, named, unsaved)
            )
        except (ToolError, OSError):
            return None
        if change is None or max(map(len, change)) > MAX_DIFF_CHARS:
            return None
        is_new = not change[0] and not path.exists()
        return helpers.tool_diff_content(str(path), change[1], None if is_new else change[0])

    # Commands

    def _command(self, prompt: Prompt) -> str:
        """Return the slash command of a prompt; empty for a message. A path is none."""
        text = remember_command(prompt.text) or prompt.text
        name = text[1:].partition(" ")[0]
        is_command = prompt.is_plain and text.startswith("/") and "\n" not in text
        return text if is_command and name.replace("-", "").isalpha() else ""

    async def _obey(self, line: str) -> StopReason:
        """Run a command and show what it printed."""
        name = line[1:].partition(" ")[0]
        if name in NOT_OFFERED:
            await self.update(notice_chunk(f"/{name} is a command of the terminal; use your editor's own"))
            return "end_turn"
        self._is_in_command = True
        try:
            done = await self._runner.run(self._slash, line, self.ready)
        finally:
            self._is_in_command = False
        for text, is_error in done.printed:
            if text.strip():
                shown = notice_chunk(text, "warning") if is_error else message(fenced(text.rstrip()) + "\n")
                await self.update(shown)
        if isinstance(done.ending, Reopen):
            await self._reopen(done.ending)
        if isinstance(done.ending, Rewound):
            await self.update(notice_chunk("what is shown above stays; the model no longer knows it"))
        await self.show_mode()
        if done.is_again:
            return STOP_REASONS[await self._stream(None)]
        return "end_turn"

    async def _reopen(self, to: Reopen) -> None:
        """Continue with another model; the session keeps its id, which the client knows it by."""
        before = self._settings
        session = self.ready.agent.session
        modes = self.ready.modes.mode
        self._settings = settings_for(before, session, to)

        async def let_go(left: OpenedChat) -> None:
            await left.held.aclose()
            if not session.view.items:
                # The log of an empty session was deleted; the next one takes its place.
                SessionLog.create(before.home, before.cwd, session=session.id).close()

        to = replace(to, session=session.id)
        try:
            # It is closed before it is opened again, because only one can have it open.
            self._chat = await switch_session(self._chat, to, self._enter, let_go)
        except NacreError:
            self._settings = before
            self._chat = await self._enter(session.id)
            self._attach()
            raise
        self._attach()
        self.ready.modes.set(modes)
        for line in self.ready.notices:
            await self.update(notice_chunk(line))
        if self.ready.choice is not None:
            await self.update(notice_chunk(self.ready.choice.reason))

    # What the client shows

    async def update(self, update: Update | ConfigOptionUpdate) -> None:
        """Send an update; a client that is gone gets none."""
        try:
            await self._client.session_update(session_id=self.id, update=update)
        except OSError:
            return

    async def greet(self) -> None:
        """Send what the client shows beside the conversation."""
        await self.update(helpers.update_available_commands(self._offered()))
        if tasks := self.ready.toolset.board.tasks:
            await self.update(plan_update(tasks))

    async def replay(self) -> None:
        """Send the whole stored conversation, also what a compaction has replaced."""
        session = self.ready.agent.session
        writer = session.writer
        log = await asyncio.to_thread(read_log, writer.path) if isinstance(writer, SessionLogWriter) else None
        records = log.records if log is not None else session.transcript.records
        for update in replay(records, self._calls):
            await self.update(update)
        self._has_title = True

    def _offered(self) -> list[AvailableCommand]:
        return [
            AvailableCommand(
                name=name,
                description=summary,
                input=_input(name, summary),
            )
            for name, summary in self._slash.commands.items()
            if name not in NOT_OFFERED
        ]

    def modes(self) -> SessionModeState:
        return SessionModeState(
            current_mode_id=self.ready.modes.mode,
            available_modes=[
                SessionMode(id=one, name=one.capitalize(), description=MEANS[one]) for one in MODES
            ],
        )

    async def set_mode(self, mode: str) -> None:
        """Apply a mode by its name; raises `RequestError` for an unknown one."""
        known = next((one for one in MODES if one == mode), None)
        if known is None:
            raise RequestError(INVALID_PARAMS, f"no mode {mode!r}; there are {', '.join(MODES)}")
        self.ready.modes.set(known)

    async def show_mode(self) -> None:
        await self.update(helpers.update_current_mode(self.ready.modes.mode))
        await self.update(
            ConfigOptionUpdate(session_update="config_option_update", config_options=self.options())
        )

    def options(self) -> list[ConfigOption]:
        """Return what a client offers beside the input: mode, model, and level of thinking."""
        session = self.ready.agent.session
        models = [
            SessionConfigSelectOption(value=one.name, name=one.name, description=" ".join(one.line.split()))
            for one in offered_models(session, self._settings.environ)
        ]
        levels = session.profile.thinking_levels
        options: list[ConfigOption] = [
            _select("mode", "Mode", self.ready.modes.mode, [_named(one, MEANS[one]) for one in MODES]),
            _select("model", "Model", session.base.model, models),
        ]
        if levels:
            named = [_named(one) for one in (AUTO, *levels)]
            options.append(_select("thought_level", "Thinking", session.settings.thinking or AUTO, named))
        return options

    async def set_option(self, name: str, value: str) -> None:
        """Apply an option by its id; raises `RequestError` for an unknown one."""
        if self._turn is not None and name != "mode":
            raise RequestError(INVALID_REQUEST, BUSY)
        if name == "mode":
            await self.set_mode(value)
            return
        commands = {"model": f"/model {value}", "thought_level": f"/think {value}"}
        if name not in commands:
            raise RequestError(INVALID_PARAMS, f"no option {name!r}")
        done = await self._runner.run(self._slash, commands[name], self.ready)
        errors = " ".join(text.strip() for text, is_error in done.printed if is_error)
        if errors:
            raise RequestError(INVALID_PARAMS, errors)
        if isinstance(done.ending, Reopen):
            await self._reopen(done.ending)


def _options(rule: str) -> list[PermissionOption]:
    return [
        PermissionOption(option_id="once", name="Allow", kind="allow_once"),
        PermissionOption(
            option_id="always", name=f"Always allow {rule} in this project", kind="allow_always"
        ),
        PermissionOption(option_id="no", name="Reject", kind="reject_once"),
        PermissionOption(option_id="never", name=f"Reject {rule} in this session", kind="reject_always"),
    ]


def _select(
    name: Literal["mode", "model", "thought_level"],
    label: str,
    value: str,
    options: list[SessionConfigSelectOption],
) -> SessionConfigOptionSelect:
    return SessionConfigOptionSelect(
        id=name, name=label, category=name, type="select", current_value=value, options=options
    )


def _named(value: str, description: str | None = None) -> SessionConfigSelectOption:
    return SessionConfigSelectOption(value=value, name=value.capitalize(), description=description)


def _input(name: str, summary: str) -> AvailableCommandInput | None:
    """Return what may follow a command, from its line in the list of commands."""
    _, found, rest = summary.partition(f"/{name} ")
    hint = rest.partition(";")[0].partition(f", /{name}")[0].replace(f"/{name} ", "")
    return AvailableCommandInput(UnstructuredCommandInput(hint=hint)) if found else None


def _text_of(path: Path) -> str | None:
    """Return the text of a file that is small enough to be shown whole; None if it cannot be."""
    try:
        return _decoded(path.read_bytes()) if path.stat().st_size <= MAX_DIFF_CHARS else None
    except OSError:
        return None


def _decoded(content: bytes) -> str | None:
    try:
        return content.decode() if len(content) <= MAX_DIFF_CHARS else None
    except UnicodeDecodeError:
        return None


def _ignore(_: str) -> None:
    return None
