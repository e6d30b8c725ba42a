"""Every setting with the kind of its value, its variables, and the sources that may set it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from typing import Protocol

from nacre.cache.models import THINKING_LEVELS
from nacre.messages.blocks import Json
from nacre.settings.values import RoleModels, Switches

ON = frozenset({"1", "true", "yes", "on"})
OFF = frozenset({"0", "false", "no", "off"})
MAX_TOKENS = 100_000_000
"""Far above any window, low enough to catch a typing error."""


class ValueKind(Protocol):
    """A kind of value; both methods raise `ValueError` or `TypeError` for an invalid one."""

    @property
    def allowed(self) -> str:
        """The end of a message that begins with "must be"."""
        ...

    def checked(self, value: Json) -> Json: ...

    def read(self, text: str) -> Json: ...


@dataclass(frozen=True, slots=True)
class TextLine:
    """Text on one line; one of `choices`, if there are any."""

    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        return " or ".join(f'"{choice}"' for choice in self.choices) or "text on one line"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise ValueError(value)
        if self.choices and value not in self.choices:
            raise ValueError(value)
        return value

    def read(self, text: str) -> Json:
        return self.checked(text)


@dataclass(frozen=True, slots=True)
class Prose:
    """Text of any length."""

    allowed: str = "text"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, str):
            raise TypeError(value)
        return value

    def read(self, text: str) -> Json:
        return text


@dataclass(frozen=True, slots=True)
class Address:
    """The base URL of an HTTP API."""

    allowed: str = "an address that starts with http:// or https://"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, str) or not value.isprintable() or " " in value:
            raise ValueError(value)
        if not value.startswith(("http://", "https://")) or not value.partition("://")[2].strip("/"):
            raise ValueError(value)
        return value

    def read(self, text: str) -> Json:
        return self.checked(text.strip())


@dataclass(frozen=True, slots=True)
class Number:
    """A number between two bounds, by default a whole one."""

    low: float = 1
    high: float = MAX_TOKENS
    is_whole: bool = True

    @property
    def allowed(self) -> str:
        return f"a {'whole ' if self.is_whole else ''}number from {self.low:g} to {self.high:,.10g}"

    def checked(self, value: Json) -> Json:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(value)
        if not math.isfinite(value) or not self.low <= value <= self.high:
            raise ValueError(value)
        if self.is_whole and value != int(value):
            raise ValueError(value)
        return int(value) if self.is_whole else float(value)

    def read(self, text: str) -> Json:
        plain = text.strip().replace("_", "")
        return self.checked(int(plain) if self.is_whole else float(plain))


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean; with `has_auto`, also `auto`, which lets the layer decide."""

    has_auto: bool = False

    @property
    def allowed(self) -> str:
        return 'true, false or "auto"' if self.has_auto else "true or false"

    def checked(self, value: Json) -> Json:
        if isinstance(value, bool) or (self.has_auto and value == "auto"):
            return value
        raise ValueError(value)

    def read(self, text: str) -> Json:
        word = text.strip().lower()
        return word in ON if word in ON | OFF else self.checked(word)


@dataclass(frozen=True, slots=True)
class Table:
    """A JSON object; with `is_words`, one whose values are all text."""

    is_words: bool = False

    @property
    def allowed(self) -> str:
        return f"a JSON object{' whose values are text' if self.is_words else ''}"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, dict):
            raise TypeError(value)
        if self.is_words and not all(isinstance(item, str) for item in value.values()):
            raise ValueError("a value is not text")
        return value

    def read(self, text: str) -> Json:
        value: Json = json.loads(text)
        return self.checked(value)


@dataclass(frozen=True, slots=True)
class NumberTable:
    """Whole numbers by name."""

    allowed: str = "a JSON object whose values are whole numbers"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, dict):
            raise TypeError(value)
        one = Number()
        return {name: one.checked(item) for name, item in value.items()}

    def read(self, text: str) -> Json:
        value: Json = json.loads(text)
        return self.checked(value)


@dataclass(frozen=True, slots=True)
class TextList:
    """A list of texts; a variable contains a JSON list or one text."""

    allowed: str = "a list of texts, none of them empty"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            raise TypeError(value)
        return value

    def read(self, text: str) -> Json:
        value: Json = json.loads(text) if text.strip().startswith("[") else [text.strip()]
        return self.checked(value)


PREFIX = "NACRE_"


class SettingsLevel(Enum):
    """The sources of values, strongest first."""

    POLICY = "policy"
    CLI = "command line"
    ENVIRONMENT = "environment"
    LOCAL = "local"
    PROJECT = "project"
    USER = "user"


class SettingScope(Enum):
    """Which sources may set a setting."""

    ANYWHERE = "anywhere"
    TRUSTED = "in a project's directory only once the user trusts it"
    NOT_PROJECT = "never a repository's own settings"
    OFF_ONLY = "a repository's own settings may say false, never true"
    NOT_REPOSITORY = "never a file in the project's directory"
    START = "policy, command line and environment only"


@dataclass(frozen=True, slots=True)
class SettingKey:
    """One setting."""

    name: str
    kind: ValueKind
    field: str = ""
    """Path of its field in `Settings`, if it does not follow from the name."""
    reach: SettingScope = SettingScope.ANYWHERE
    aliases: tuple[str, ...] = ()
    """Variables of other programs; nacre's own variable takes precedence (M7)."""
    adds_up: bool = False
    """A list to which every source adds, instead of the strongest one replacing it."""

    @property
    def variable(self) -> str:
        return PREFIX + _snake(self.name.removeprefix("switches.")).replace(".", "_").upper()

    @property
    def path(self) -> tuple[str, ...]:
        return tuple((self.field or _snake(self.name)).split("."))


@cache
def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


SECONDS = Number(low=0.1, high=86_400, is_whole=False)
"""At most a day; more is a mistake."""
DOLLARS = Number(low=0, high=1_000_000, is_whole=False)
PAID_TOKENS = Number(low=0, high=1_000_000_000_000)
"""Limits on spending: a day of many sessions uses far more tokens than any window has."""
MODES = ("default", "acceptEdits", "bypassPermissions")
_PROTECTIVE = {"grounding", "drift_check", "web_fetch"}
"""Switches that check memories, and the one that opens the network: a repository could only loosen them."""
_AUTO = {"keep_warm", "recall_selector", "extract", "dream"}

_KEYS = (
    SettingKey("home", TextLine(), reach=SettingScope.START, aliases=("CLAUDE_CONFIG_DIR",)),
    SettingKey("model", TextLine()),
    SettingKey("smallModel", TextLine()),
    SettingKey("fallbackModel", TextLine()),
    *(SettingKey(f"roles.{role.name}", TextLine()) for role in fields(RoleModels)),
    SettingKey("anthropic.baseUrl", Address(), reach=SettingScope.TRUSTED, aliases=("ANTHROPIC_BASE_URL",)),
    SettingKey("openai.baseUrl", Address(), reach=SettingScope.TRUSTED, aliases=("OPENAI_BASE_URL",)),
    SettingKey("thinking", TextLine(THINKING_LEVELS)),
    SettingKey("maxOutputTokens", Number(), aliases=("CLAUDE_CODE_MAX_OUTPUT_TOKENS",)),
    SettingKey("profile", TextLine(("auto", "small", "full"))),
    SettingKey("maxTurns", Number(high=100_000)),
    SettingKey("cacheTtl", TextLine(("5m", "1h", "mixed", "auto"))),
    SettingKey("maxContextTokens", Number(low=1_000), aliases=("CLAUDE_CODE_MAX_CONTEXT_TOKENS",)),
    SettingKey(
        "autocompact.pct", Number(high=100, is_whole=False), aliases=("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE",)
    ),
    SettingKey("autocompact.window", Number(low=1_000), aliases=("CLAUDE_CODE_AUTO_COMPACT_WINDOW",)),
    SettingKey("retry.tries", Number(high=100)),
    SettingKey("retry.maxWaitSeconds", SECONDS),
    SettingKey("retry.silenceSeconds", SECONDS),
    SettingKey("recall.selectorSeconds", SECONDS),
    SettingKey("recall.selectorWaitMs", Number(low=0, high=10_000)),
    SettingKey("terminal.vim", Flag()),
    SettingKey("terminal.screenReader", Flag()),
    SettingKey("background.idleSeconds", Number(low=0, high=3_600, is_whole=False)),
    SettingKey("background.quietSeconds", Number(low=0, high=3_600, is_whole=False)),
    SettingKey("keepWarm.maxUsd", Number(low=0, high=1_000, is_whole=False), reach=SettingScope.TRUSTED),
    SettingKey("keepWarm.maxShare", Number(low=0, high=1, is_whole=False), reach=SettingScope.TRUSTED),
    SettingKey("keepWarm.maxRefreshes", Number(high=4), reach=SettingScope.TRUSTED),
    SettingKey("keepWarm.marginSeconds", Number(low=1, high=299, is_whole=False)),
    *(
        key
        for scope in ("turn", "session", "day", "agent")
        for key in (
            SettingKey(f"spend.{scope}Usd", DOLLARS, reach=SettingScope.TRUSTED),
            SettingKey(f"spend.{scope}Tokens", PAID_TOKENS, reach=SettingScope.TRUSTED),
        )
    ),
    SettingKey("tools.timeoutSeconds", SECONDS),
    SettingKey("tools.maxTimeoutSeconds", SECONDS),
    SettingKey("tools.readTokens", Number(low=500, high=100_000)),
    SettingKey("tools.readPageChars", Number(low=0)),
    SettingKey("tools.deferred", Flag(has_auto=True)),
    SettingKey("offload.maxChars", Number(low=1_000)),
    SettingKey("offload.roundChars", Number(low=1_000)),
    SettingKey("offload.imageTokens", Number(low=1_000)),
    SettingKey("offload.perTool", NumberTable()),
    SettingKey("results.maxBytes", Number(low=100_000, high=1_000_000_000_000)),
    SettingKey("microcompact.keep", Number()),
    SettingKey("microcompact.editedTokens", Number(low=0)),
    SettingKey("microcompact.idleSeconds", SECONDS),
    SettingKey("microcompact.namesTokens", Number(low=0, high=10_000)),
    SettingKey("microcompact.pinTool", Flag()),
    SettingKey("notes.always", Flag()),
    SettingKey("notes.firstTokens", Number(low=1_000)),
    SettingKey("notes.growthTokens", Number(low=500)),
    SettingKey("notes.growthShare", Number(low=0, high=1, is_whole=False)),
    SettingKey("notes.minCalls", Number(high=1_000)),
    SettingKey("notes.sectionTokens", Number(low=100, high=100_000)),
    SettingKey("notes.totalTokens", Number(low=1_000, high=200_000)),
    SettingKey("compaction.tailTokens", Number(high=1_000_000)),
    SettingKey("compaction.roomTokens", Number(high=1_000_000)),
    SettingKey("compaction.wordsTokens", Number(high=1_000_000)),
    SettingKey("compaction.pastTokens", Number(high=1_000_000)),
    SettingKey("compaction.namesTokens", Number(low=0, high=1_000_000)),
    SettingKey("compaction.summarySeconds", SECONDS),
    SettingKey("compaction.summaryRoom", Number(low=0, high=1_000_000)),
    SettingKey("compaction.summaryTokens", Number(low=1_000, high=64_000)),
    SettingKey("compaction.maxFiles", Number(high=100)),
    SettingKey("compaction.fileTokens", Number(high=1_000_000)),
    SettingKey("compaction.filesTokens", Number(high=1_000_000)),
    SettingKey("extract.mode", TextLine(("off", "suggest", "auto")), reach=SettingScope.NOT_PROJECT),
    SettingKey("extract.nonInteractive", Flag(), reach=SettingScope.TRUSTED),
    SettingKey("extract.remote", Flag(), reach=SettingScope.NOT_PROJECT),
    SettingKey("extract.everyTurns", Number(high=1_000)),
    SettingKey("dream.minHours", Number(low=0, high=8_760, is_whole=False)),
    SettingKey("dream.minSessions", Number(low=0, high=1_000)),
    SettingKey("dream.maxRemovedShare", Number(low=0, high=1, is_whole=False), reach=SettingScope.TRUSTED),
    SettingKey("dream.maxTokens", PAID_TOKENS, reach=SettingScope.TRUSTED),
    SettingKey("dream.maxSeconds", Number(low=1, high=3_000, is_whole=False)),
    SettingKey(
        "agents.maxDepth",
        Number(high=10),
        reach=SettingScope.TRUSTED,
        aliases=("CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH",),
    ),
    SettingKey(
        "agents.maxAtOnce",
        Number(high=1_000),
        reach=SettingScope.TRUSTED,
        aliases=("CLAUDE_CODE_MAX_CONCURRENT_SUBAGENTS",),
    ),
    SettingKey("agents.stallSeconds", SECONDS),
    SettingKey("agents.resultChars", Number(low=1_000, high=160_000), aliases=("TASK_MAX_OUTPUT_LENGTH",)),
    SettingKey("agents.progressSeconds", SECONDS, reach=SettingScope.TRUSTED),
    SettingKey("agents.teammates", TextLine(("in-process", "process"))),
    SettingKey("permissions.allow", TextList(), reach=SettingScope.TRUSTED, adds_up=True),
    SettingKey("permissions.ask", TextList(), adds_up=True),
    SettingKey("permissions.deny", TextList(), adds_up=True),
    SettingKey("permissions.defaultMode", TextLine(MODES), reach=SettingScope.TRUSTED),
    SettingKey("permissions.additionalDirectories", TextList(), reach=SettingScope.TRUSTED, adds_up=True),
    SettingKey("sandbox.enabled", Flag(), reach=SettingScope.NOT_REPOSITORY),
    SettingKey("sandbox.network", Flag(), reach=SettingScope.NOT_REPOSITORY),
    SettingKey("sandbox.readable", TextList(), reach=SettingScope.NOT_REPOSITORY, adds_up=True),
    SettingKey("sandbox.writable", TextList(), reach=SettingScope.NOT_REPOSITORY, adds_up=True),
    *(
        SettingKey(
            f"switches.{switch.name}",
            Flag(switch.name in _AUTO),
            reach=SettingScope.TRUSTED if switch.name in _PROTECTIVE else SettingScope.ANYWHERE,
        )
        for switch in fields(Switches)
    ),
    SettingKey("autoMemoryEnabled", Flag(), field="memory.enabled", reach=SettingScope.OFF_ONLY),
    SettingKey("autoMemoryDirectory", TextLine(), field="memory.directory", reach=SettingScope.NOT_PROJECT),
    SettingKey("memoryHome", TextLine(), field="memory.home", reach=SettingScope.NOT_REPOSITORY),
    SettingKey(
        "disableAutoMemory",
        Flag(),
        field="memory.disabled",
        reach=SettingScope.NOT_REPOSITORY,
        aliases=("CLAUDE_CODE_DISABLE_AUTO_MEMORY",),
    ),
    SettingKey(
        "simple",
        Flag(),
        field="memory.simple",
        reach=SettingScope.NOT_REPOSITORY,
        aliases=("CLAUDE_CODE_SIMPLE",),
    ),
    SettingKey(
        "remote",
        Flag(),
        field="memory.remote",
        reach=SettingScope.NOT_REPOSITORY,
        aliases=("CLAUDE_CODE_REMOTE",),
    ),
    SettingKey(
        "remoteMemoryDir",
        TextLine(),
        field="memory.remote_directory",
        reach=SettingScope.NOT_REPOSITORY,
        aliases=("CLAUDE_CODE_REMOTE_MEMORY_DIR",),
    ),
    SettingKey(
        "memoryPathOverride",
        TextLine(),
        field="memory.path_override",
        reach=SettingScope.NOT_REPOSITORY,
        aliases=("CLAUDE_COWORK_MEMORY_PATH_OVERRIDE",),
    ),
    SettingKey(
        "memoryExtraGuidelines",
        Prose(),
        field="memory.extra_guidelines",
        reach=SettingScope.NOT_REPOSITORY,
        aliases=("CLAUDE_COWORK_MEMORY_EXTRA_GUIDELINES",),
    ),
    SettingKey(
        "claudeMdExcludes",
        TextList(),
        field="memory.instruction_excludes",
        reach=SettingScope.TRUSTED,
        adds_up=True,
    ),
    SettingKey("memory.mode", TextLine(("topics", "daily")), reach=SettingScope.NOT_PROJECT),
    SettingKey("memory.index", Flag(), reach=SettingScope.NOT_PROJECT),
    SettingKey("memory.team", Flag(), reach=SettingScope.OFF_ONLY),
    SettingKey("memory.teamRemote", TextLine(), reach=SettingScope.NOT_REPOSITORY),
    SettingKey("memory.syncRemote", TextLine(), reach=SettingScope.NOT_REPOSITORY),
    SettingKey("env", Table(is_words=True), field="environ", reach=SettingScope.TRUSTED),
    SettingKey("hooks", Table(), reach=SettingScope.TRUSTED),
    SettingKey("commands", Table(), reach=SettingScope.TRUSTED),
    SettingKey("mcpServers", Table(), reach=SettingScope.TRUSTED),
    SettingKey("claudeSettings", Flag(), reach=SettingScope.NOT_REPOSITORY),
    SettingKey("models", Table(), reach=SettingScope.TRUSTED),
)

KEYS = {key.name: key for key in _KEYS}
"""Every setting by its name, in the order `nacre doctor` shows them."""

GROUPS = frozenset(name.rpartition(".")[0] for name in KEYS) - {""}
"""Objects that hold settings, such as `roles`."""

OTHER_VARIABLES = frozenset({"DEBUG", "MCP_TOKEN"})
"""nacre's variables that are not settings, without the prefix."""
