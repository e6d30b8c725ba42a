"""`nacre -p TEXT`: answer one prompt on stdout and exit."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Sequence

import click

from nacre.app.open_agent import NEW, open_agent
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import countdown, json_text, print_error, print_json, terminal_text
from nacre.cli.signals import run_to_end
from nacre.context.recalled import memories_of
from nacre.messages.blocks import Image, JsonObject
from nacre.messages.events import (
    Event,
    Notice,
    Reply,
    StartedOver,
    TextDelta,
    ThinkingDelta,
    ToolCallEvent,
    ToolResultEvent,
    TurnDone,
    Waiting,
)
from nacre.messages.media import as_image
from nacre.messages.usage import Usage
from nacre.session.session import Session


def run_prompt(options: RunOptions) -> int:
    """Answer once; exit code 1 if the turn ended without an answer: turn limit or refusal."""
    try:
        images = [as_image(one) for one in options.image]
    except ValueError as error:
        raise click.UsageError(f"--image: {error}") from error
    return run_to_end(_run(options.updated(prompt=with_piped(options.prompt or "")), images))


async def _run(options: RunOptions, images: Sequence[Image]) -> int:
    settings = load_settings(options)
    async with open_agent(settings, session=options.session or NEW, ephemeral=options.incognito) as ready:
        ready.background.on_progress = countdown
        ready.agent.session.is_one_shot = True
        for problem in (*(one.line for one in settings.problems), *ready.notices):
            print_error(problem)
        answer = ""
        done = None
        async for event in ready.agent.stream(options.prompt or "", images=images):
            match event:
                case Reply():
                    answer = event.message.text
                case TurnDone():
                    done = event
                case Notice(text) if options.output_format == "text":
                    print_error(text)
                case Waiting(seconds, reason) if options.output_format != "stream-json":
                    print_error(f"{reason}; trying again in {seconds:.0f} s")
                case _:
                    pass
            if options.output_format == "stream-json" and (line := event_json(event)):
                print(json_text(line), flush=True)
        assert done is not None
        # Before anything is closed: an error then must not cost an answer that was paid for.
        _print_event(answer, _result(answer, ready.agent.session, done), options.output_format)
    # Results of background work that was waited for.
    for notice in ready.agent.session.notices():
        print_error(notice.text)
    return 0 if done.outcome == "answered" else 1


def _print_event(answer: str, result: JsonObject, output_format: str) -> None:
    if output_format == "text":
        print(terminal_text(answer), flush=True)
    elif output_format == "json":
        print_json(result)
    else:
        print(json_text({"type": "result", **result}), flush=True)


def _result(answer: str, session: Session, done: TurnDone) -> JsonObject:
    saved, recalled = memories_of(session.transcript.records)
    return {
        "result": answer,
        "session": session.id,
        "usage": usage_json(done.usage),
        "cost_usd": None if done.cost_usd is None else round(done.cost_usd, 6),
        "turns": done.rounds,
        "outcome": done.outcome,
        "memories_saved": saved,
        "memories_recalled": recalled,
    }


def usage_json(usage: Usage) -> JsonObject:
    estimated: JsonObject = {"approximate": True} if usage.approximate else {}
    return {
        **estimated,
        "input": usage.input,
        "cache_write": usage.cache_write,
        "cache_read": usage.cache_read,
        "output": usage.output,
    }


def event_json(event: Event) -> JsonObject | None:
    """Return an event as an object of `stream-json`; None for what the result repeats."""
    match event:
        case TextDelta(text):
            return {"type": "text", "text": text}
        case ThinkingDelta(text):
            return {"type": "thinking", "text": text}
        case ToolCallEvent(call):
            return {"type": "call", "id": call.id, "name": call.name, "input": call.input}
        case ToolResultEvent(call, result):
            return {"type": "result_of", "id": call.id, "text": result.text, "is_error": result.is_error}
        case Reply():
            return {"type": "reply", "text": event.message.text, "usage": usage_json(event.usage)}
        case Waiting(seconds, reason):
            return {"type": "waiting", "seconds": seconds, "reason": reason}
        case StartedOver(reason):
            return {"type": "started_over", "reason": reason}
        case Notice(text, level):
            return {"type": "notice", "text": text, "level": level}
        case _:
            return None


STDIN = "-"
"""As a prompt: read it from stdin."""
SILENT_SECONDS = 3.0
"""How long to wait for a pipe that is neither written to nor closed, as some schedulers leave it."""


def with_piped(prompt: str) -> str:
    """Return the prompt followed by the piped input; a usage error if both are empty."""
    if prompt == STDIN:
        if not (text := _read()).strip():
            raise click.UsageError("stdin is empty; pipe the prompt in, or give it after -p")
        return text
    piped = _read() if _has_input() else ""
    return f"{prompt}\n\n{piped}" if piped.strip() else prompt


def _has_input() -> bool:
    """Whether stdin has input: a file, or a pipe with data or at its end."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return False  # there is none, or it is closed
    if stat.S_ISREG(mode):
        return True
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return False
    if select.select([sys.stdin], [], [], SILENT_SECONDS)[0]:
        return True
    print_error(
        f"nothing came on stdin in {SILENT_SECONDS:.0f} s; going on without it (`< /dev/null` is quicker)"
    )
    return False


def _read() -> str:
    if sys.stdin is None:
        return ""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError("stdin is not UTF-8 text; convert it first") from error
