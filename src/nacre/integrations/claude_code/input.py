"""Parse and check the JSON that Claude Code passes to a hook (M1)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import NacreError
from nacre.messages.blocks import Json, JsonObject
from nacre.settings import Settings, load
from nacre.store.home import home

EVENTS = ("SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SessionEnd")
"""Hook events that nacre answers; others are ignored."""
OURS = "NACRE_PROJECT_DIR"
"""Set for hooks that nacre itself runs, so that recall is not added twice."""
UNATTENDED = "sdk"
"""Prefix of the client's entry point when no user is at a terminal."""
CLIENT_SETTINGS = (".claude/settings.local.json", ".claude/settings.json")
MAX_SETTINGS_BYTES = 1_000_000
"""Maximum size of a settings file, as for nacre's own."""
MAX_PATH_CHARS = 4_096
"""Maximum length of a path."""
KEPT_FILE = "nacre-words-and-deeds.md"
SHORT_FILE = "nacre-words.md"
"""File next to it with the words that are attached after a compaction."""
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookInput:
    """One hook event, reduced to the fields that matter."""

    event: str
    session: str
    home: Path
    """The client's folder, which is nacre's home during a hook."""
    cwd: Path
    """Where the client was started: the project whose memory is used."""
    transcript: str = ""
    """As received; `transcript_of` checks it."""
    prompt: str = ""
    source: str = ""
    """Why a session starts: `startup`, `resume`, `clear`, `compact`, `fork`."""
    is_again: bool = False
    """The client continues because of a stop hook: the turn has not ended."""
    is_agents: bool = False
    """The event is about a sub-agent of the client, not about the user."""


def parse_input(event: str, raw: bytes, environ: Mapping[str, str]) -> HookInput:
    """Parse the client's input; unknown fields are ignored. Raises `NacreError` for invalid ones."""
    given = _document(raw)
    session = _text(given, "session_id")
    if not _SESSION.fullmatch(session):
        raise NacreError("the input names no session; Claude Code runs this, see `nacre hook --help`")
    return HookInput(
        event=event,
        session=session,
        home=client_home(environ),
        cwd=_directory(environ.get("CLAUDE_PROJECT_DIR", ""))
        or _directory(_text(given, "cwd"))
        or Path.cwd(),
        transcript=_text(given, "transcript_path"),
        prompt=_text(given, "prompt"),
        source=_text(given, "source"),
        is_again=given.get("stop_hook_active") is True,
        is_agents=bool(_text(given, "agent_id")),
    )


def client_home(environ: Mapping[str, str]) -> Path:
    """Return the directory of Claude Code's settings, sessions and memories."""
    given = environ.get("CLAUDE_CONFIG_DIR", "").strip()
    home = Path(environ.get("HOME") or Path.home())
    return Path(os.path.realpath(given)) if given else Path(os.path.realpath(home / ".claude"))


def transcript_of(hook: HookInput) -> Path:
    """Return the session's log; raises `NacreError` if it is not one of the client's."""
    projects = Path(os.path.realpath(hook.home / "projects"))
    path = Path(os.path.realpath(hook.transcript)) if _is_path(hook.transcript) else None
    if path is None or path.suffix != ".jsonl" or not path.is_relative_to(projects):
        raise NacreError(
            f"the transcript {hook.transcript[:200]!r} is not among those in {projects}; not read"
        )
    if path.stem != hook.session:
        raise NacreError(f"the transcript {path.name} does not belong to session {hook.session}; not read")
    return path


def kept_path(log: Path) -> Path:
    """Return the path of the saved words, in the client's folder of the session."""
    return log.with_suffix("") / KEPT_FILE


def settings_for(cwd: Path, environ: Mapping[str, str]) -> Settings:
    """Return the settings in force in the client's project, with the client's home instead of `NACRE_HOME`.

    Settings of nacre's own home apply where the client's say nothing: both use one memory, and the user
    decides where it is.
    """
    # Its hooks and rules are for Claude Code itself, which applies them; its switch is read below.
    given: JsonObject = {"home": str(client_home(environ)), "claudeSettings": False}
    return load(cwd, environ, cli=given, beneath=home(environ))


def is_switched_off(hook: HookInput) -> bool:
    """Whether the client's settings for this project switch memory off (M7)."""
    for name in CLIENT_SETTINGS:
        path = hook.cwd / name
        try:
            if not path.is_file() or path.stat().st_size > MAX_SETTINGS_BYTES:
                continue
            given: Json = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue  # the client says itself what is wrong with it
        if isinstance(given, dict) and isinstance(given.get("autoMemoryEnabled"), bool):
            return given["autoMemoryEnabled"] is False
    return False


def is_attended(environ: Mapping[str, str]) -> bool:
    """Whether a user is at the client."""
    return not environ.get("CLAUDE_CODE_ENTRYPOINT", "").startswith(UNATTENDED)


def _document(raw: bytes) -> JsonObject:
    try:
        given: Json = json.loads(raw)
    except (ValueError, RecursionError):
        raise NacreError("stdin is not the JSON that Claude Code passes to hooks") from None
    if not isinstance(given, dict):
        raise NacreError("stdin is not the JSON object that Claude Code passes to hooks")
    return given


def _text(given: JsonObject, name: str) -> str:
    value = given.get(name)
    # A lone surrogate is valid JSON but can be neither printed nor used as a path.
    return value.encode(errors="replace").decode() if isinstance(value, str) else ""


def _directory(name: str) -> Path | None:
    try:
        return Path(name) if _is_path(name) and Path(name).is_absolute() and Path(name).is_dir() else None
    except OSError:
        return None  # a name that is too long, a place that may not be looked at


def _is_path(name: str) -> bool:
    """Whether a string can be a path at all."""
    return 0 < len(name) <= MAX_PATH_CHARS and "\0" not in name
