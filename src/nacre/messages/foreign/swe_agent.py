"""SWE-agent `.traj` files: `history` is the conversation, `trajectory` the steps it consists of (T7)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import takewhile

from nacre.messages.blocks import Json, JsonObject, Text
from nacre.messages.foreign.openai_messages import add_messages
from nacre.messages.foreign.recording import ForeignSession, Recording, objects, rest, text_of


def is_swe_agent(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    history = objects(value.get("history"))
    steps = objects(value.get("trajectory"))
    return bool(history and all("role" in one for one in history)) or bool(
        steps and {"action", "observation"} & steps[0].keys()
    )


def read(values: Iterable[Json], *, name: str) -> list[ForeignSession]:
    """Return one session per value."""
    return [_session(value, Recording(name, number)) for number, value in enumerate(values)]


def _session(value: Json, recording: Recording) -> ForeignSession:
    run = value if isinstance(value, dict) else {}
    history = objects(run.get("history"))
    steps = objects(run.get("trajectory"))
    recording.note("recording", rest(run, "history", "trajectory"))
    recording.cwd = next((folder for step in steps if (folder := _folder(step))), None)
    add_messages(history, recording)
    said = {text_of(one.get("content")).strip() for one in history}
    missing = list(takewhile(lambda step: _response(step) not in said, reversed(steps)))
    for step in reversed(missing):
        _add_step(step, recording)
    left_out = sum(_response(step) not in said for step in steps) - len(missing)
    if left_out:
        recording.report(
            "left_out", "trajectory", f"{left_out} steps are not part of the history the agent saw"
        )
    if history and steps and not missing:
        # The run ends with its last observation, which the agent never saw.
        recording.note("last_observation", {"text": text_of(steps[-1].get("observation"))})
    return recording.done()


def _response(step: JsonObject) -> str:
    found = text_of(step.get("response")) or text_of(step.get("thought")) or text_of(step.get("action"))
    return found.strip()


def _add_step(step: JsonObject, recording: Recording) -> None:
    """Add a last step that the history lacks: the agent's text and the observation after it."""
    if response := _response(step):
        recording.say("assistant", (Text(response),), source=step, extra={})
    if observation := text_of(step.get("observation")):
        recording.say("user", (Text(observation),), source=step, extra={})


def _folder(step: JsonObject) -> str:
    state = step.get("state")
    if isinstance(state, str):
        try:
            state = json.loads(state)
        except ValueError:
            return ""
    folder = text_of(state.get("working_dir")) if isinstance(state, dict) else ""
    return folder if folder.startswith("/") else ""
