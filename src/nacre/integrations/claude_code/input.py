"""What Claude Code tells a hook: JSON of another program, made a value once, believed no further (M1)."""

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
"""The hooks that nacre answers; whatever else the client has is nothing to us."""
OURS = "NACRE_PROJECT_DIR"
"""Set for hooks that nacre itself runs: it has its own recall, and must not get it twice."""
UNATTENDED = "sdk"
"""How the client's word for its way in begins where nobody sits at a terminal."""
CLIENT_SETTINGS = (".claude/settings.local.json", ".claude/settings.json")
MAX_SETTINGS_BYTES = 1_000_000
"""As for settings of our own: a page or two."""
MAX_PATH_CHARS = 4_096
"""No system here opens a longer one."""
KEPT_FILE = "nacre-words-and-deeds.md"
SHORT_FILE = "nacre-words.md"
"""Beside it: as much of a person's words as a conversation gets back by itself."""
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookInput:
    """One event of the client's, as far as it matters here."""

    event: str
    session: str
    home: Path
    """The client's folder, which is nacre's home while it works for it."""
    cwd: Path
    """Where the client was started: the project whose memory it uses."""
    transcript: str = ""
    """As it was told; `transcript_of` says which file that is, if it may be read."""
    prompt: str = ""
    source: str = ""
    """Why a session starts: `startup`, `resume`, `clear`, `compact`, `fork`."""
    is_again: bool = False
    """The client goes on because of a stop hook: the turn has not ended."""
    is_agents: bool = False
    """It is about an agent of the client's, not about what a person says."""


def told(event: str, raw: bytes, environ: Mapping[str, str]) -> HookInput:
    """Read what the client wrote; fields that nobody knows are passed over. `NacreError` for the rest."""
    given = _document(raw)
    session = _text(given, "session_id")
    if not _SESSION.fullmatch(session):
        raise NacreError("the client named no session; is this run by hand? see `nacre hook --help`")
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
    """Where Claude Code keeps its settings, its sessions and its memories."""
    given = environ.get("CLAUDE_CONFIG_DIR", "").strip()
    home = Path(environ.get("HOME") or Path.home())
    return Path(os.path.realpath(given)) if given else Path(os.path.realpath(home / ".claude"))


def transcript_of(told: HookInput) -> Path:
    """The session's log; `NacreError` unless it is a log among the client's own."""
    projects = Path(os.path.realpath(told.home / "projects"))
    path = Path(os.path.realpath(told.transcript)) if _is_path(told.transcript) else None
    if path is None or path.suffix != ".jsonl" or not path.is_relative_to(projects):
        raise NacreError(
            f"the transcript {told.transcript[:200]!r} is not among those in {projects}; not read"
        )
    if path.stem != told.session:
        raise NacreError(f"the transcript {path.name} is not that of session {told.session}; not read")
    return path


def kept_path(log: Path) -> Path:
    """Where words and deeds are kept: in the folder that the client has for the session."""
    return log.with_suffix("") / KEPT_FILE


def settings_for(cwd: Path, environ: Mapping[str, str]) -> Settings:
    """The settings in force where the client works: its home is ours, whatever `NACRE_HOME` says.

    What nacre's own home says holds too, where the client's says nothing: both work on one memory, and it is
    the person's word how that is kept, and where.
    """
    return load(cwd, environ, cli={"home": str(client_home(environ))}, beneath=home(environ))


def is_switched_off(told: HookInput) -> bool:
    """Whether the client's own settings for this project switch memory off; they may, as ours may (M7)."""
    for name in CLIENT_SETTINGS:
        path = told.cwd / name
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
    """Whether somebody sits at the client."""
    return not environ.get("CLAUDE_CODE_ENTRYPOINT", "").startswith(UNATTENDED)


def _document(raw: bytes) -> JsonObject:
    try:
        given: Json = json.loads(raw)
    except (ValueError, RecursionError):
        raise NacreError("stdin is not the JSON that Claude Code gives its hooks") from None
    if not isinstance(given, dict):
        raise NacreError("stdin is not the JSON object that Claude Code gives its hooks")
    return given


def _text(given: JsonObject, name: str) -> str:
    value = given.get(name)
    # A lone surrogate is valid JSON and can be neither printed nor looked up.
    return value.encode(errors="replace").decode() if isinstance(value, str) else ""


def _directory(name: str) -> Path | None:
    try:
        return Path(name) if _is_path(name) and Path(name).is_absolute() and Path(name).is_dir() else None
    except OSError:
        return None  # a name that is too long, a place that may not be looked at


def _is_path(name: str) -> bool:
    """Whether a name can be one of a file at all; the rest would only take long to look for."""
    return 0 < len(name) <= MAX_PATH_CHARS and "\0" not in name
