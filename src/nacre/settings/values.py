"""The settings as frozen values, with their meaning and their defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from nacre.cache.models import ThinkingLevel
from nacre.cache.warmth import KeepWarmSettings
from nacre.errors import ConfigError
from nacre.layers.l1_offload.policy import OffloadSettings
from nacre.layers.l2_microcompact.settings import MicrocompactSettings
from nacre.layers.l3_notes.policy import NotesSettings
from nacre.layers.l4_compact.settings import CompactSettings
from nacre.layers.l5_extract.policy import ExtractSettings
from nacre.layers.l6_dream.policy import DreamSettings
from nacre.messages.blocks import JsonObject
from nacre.session.settings import SpendSettings
from nacre.store.disk import ResultSettings

if TYPE_CHECKING:
    from nacre.memory.files.location import Location

Switch: TypeAlias = "bool | Literal['auto']"
"""`auto` lets the layer decide by what it finds: a verified provider, a configured model."""


CacheTtl: TypeAlias = Literal["5m", "1h", "mixed", "auto"]


Mode: TypeAlias = Literal["default", "acceptEdits", "bypassPermissions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """One switch per layer and mechanism; `app/switch_updates.py` applies changes at the next turn."""

    offload: bool = True
    """Oversized tool results go to the store before they are first sent."""
    clear_idle: bool = True
    """Old tool results are cleared when the provider's cache has gone cold anyway."""
    keep_warm: Switch = "auto"
    """Refresh the cache while waiting for the user, where the provider is known to do that and it pays."""
    notes: bool = True
    """Keep running notes of the session (only with `compact` on)."""
    notes_compact: bool = True
    """Let the notes stand for the conversation before a summary is paid for."""
    compact: bool = True
    """Automatic compaction near the window's end."""
    compact_prepare: bool = True
    """Prepare a compaction in the background before it is needed."""
    recall: bool = True
    """Attach the memories a message calls for."""
    recall_selector: Switch = "auto"
    """Let a small model choose among them; `auto` is on when one is named or a vendor's key is set."""
    extract: Switch = "auto"
    """Write durable facts to memory after a turn; `auto` asks a real model, or rules without one."""
    dream: Switch = "auto"
    """Consolidate memory between sessions; `auto` as for `extract`."""
    web_fetch: bool = False
    """Offer the model a tool that fetches web pages."""
    search_past: bool = True
    """Offer the model a tool that searches earlier sessions of the project."""
    drift_check: bool = True
    """Check a recalled memory against the files it speaks of."""
    grounding: bool = True
    agents: bool = True
    """Let the model start other agents and write to them."""
    skills: bool = True
    """List the skills there are, and let the model load them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleModels:
    """Models for side work (P2); None falls back to the main one as a fork, or to the small one."""

    select: str | None = None
    extract: str | None = None
    notes: str | None = None
    compact: str | None = None
    dream: str | None = None
    summary: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a vendor's requests go."""

    base_url: str | None = None
    """None: the vendor's own address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Autocompact:
    """When compaction starts; these lower the threshold the window gives and never raise it (C3)."""

    pct: float | None = None
    """Percent of the effective window."""
    window: int | None = None
    """Compact as if the window had this many tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How patient a model call is; None leaves the choice to `nacre.providers`."""

    tries: int | None = None
    """Tries in all, the first included."""
    max_wait_seconds: float | None = None
    """The longest single pause between two tries."""
    silence_seconds: float | None = None
    """How long a provider may send nothing before its reply counts as broken; a slow machine needs more.

    Default: 120 seconds (Anthropic), 300 (OpenAI and local servers)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalSettings:
    """How the chat in the terminal is used."""

    vim: bool = False
    """Vim keys in the input of the full screen: Escape begins the normal mode."""
    screen_reader: bool = False
    """The chat runs line by line, announces what happens in words, and never redraws a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundSettings:
    """How work beside the conversation shares the model with it."""

    idle_seconds: float | None = None
    """How long you must have been silent before notes and extraction ask the model, both in one request.
    0: at once.

    Default: one minute before the provider's cache expires, so that the request also renews it: 240 seconds
    for a cache of five minutes, and 29 minutes at most."""
    quiet_seconds: float | None = None
    """How long you must have been silent before notes, summaries, extraction and dreams ask the model; they
    then run one at a time and stop when you speak. 0 lets them begin at once, side by side.

    Default: 20 seconds with a model on this machine, 0 otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSettings:
    """How recall asks a small model."""

    selector_seconds: float = 10.0
    """How long the small model may take to choose memories; later picks go with the next message."""
    selector_wait_ms: int = 400
    """How long a message waits for the choice, unless what was found without the model is nearly certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """How far agents of a session may go."""

    max_depth: int = 3
    """An agent of an agent of an agent, and no further: deeper ones repeat each other's work."""
    max_at_once: int = 20
    """Working side by side: each has a request under way, and providers limit those."""
    stall_seconds: float = 600.0
    """Without any sign for so long it hangs: no reply and no command takes ten minutes."""
    result_chars: int = 32_000
    """Of a result that stand in the conversation: about 8,000 tokens; the rest is in a file."""
    progress_seconds: float = 30.0
    """Seconds between two lines about the activity of an agent; more of them cost more than they help."""
    teammates: Literal["in-process", "process"] = "in-process"
    """Where a member of a team runs: beside the session, or as a process of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """How long a tool may run, and when its definition is sent; None leaves the choice to `nacre.tools`."""

    timeout_seconds: float | None = None
    max_timeout_seconds: float | None = None
    """The most that a call may ask for."""
    read_tokens: int | None = None
    """Tokens that one call of Read returns at most."""
    read_page_chars: int | None = None
    """Characters from which on Read shows a file as its beginning and an outline of names, unless the call
    asks for lines: 12,000 unless given; 0: never."""
    deferred: Switch = "auto"
    """Leave rarely used tools and those of MCP servers out of the prompt until the model asks for them
    (ToolSearch), if the model supports it; `auto` leaves those of servers out if they take at least 2,000
    tokens, and none behind a gateway."""


@dataclass(frozen=True, slots=True)
class ListEntry:
    """One entry of a list to which several sources add."""

    text: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """What the model may call; rules such as `Bash(git status:*)` or `Edit(src/**)`."""

    allow: tuple[ListEntry, ...] = ()
    """Goes ahead without a question."""
    ask: tuple[ListEntry, ...] = ()
    """Asks even where another rule allows it."""
    deny: tuple[ListEntry, ...] = ()
    """Never happens, whatever else allows it."""
    default_mode: Mode = "default"
    """`acceptEdits` changes files in the project without asking, `bypassPermissions` asks nothing at all."""
    additional_directories: tuple[ListEntry, ...] = ()
    """Directories that count as part of the project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings:
    """Whether Bash runs commands in a sandbox, and what they reach from there."""

    enabled: bool = False
    """Run commands of Bash in a sandbox (Linux: bubblewrap); if it does not work, Bash is refused."""
    network: bool = False
    """Let commands in the sandbox use the network."""
    readable: tuple[ListEntry, ...] = ()
    """More directories that commands in the sandbox can read, such as a toolchain in the home."""
    writable: tuple[ListEntry, ...] = ()
    """More directories that commands in the sandbox can write, in addition to the project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """Whether there is memory, and where (M4, M7)."""

    enabled: bool | None = None
    """The setting `autoMemoryEnabled`."""
    disabled: bool | None = None
    """`NACRE_DISABLE_AUTO_MEMORY` or `--no-memory`: decides before everything else, both ways."""
    simple: bool = False
    """`NACRE_SIMPLE` or `--bare`."""
    remote: bool = False
    """The process runs on a machine whose disk does not last."""
    remote_directory: str | None = None
    """Stands in for the home as the base of memory."""
    path_override: str | None = None
    """The memory directory itself, set by an embedding host."""
    directory: str | None = None
    """The setting `autoMemoryDirectory`; never from a repository's own settings."""
    home: str | None = None
    """The setting `memoryHome`: the folder that memories, their history and their locks lie below, in place
    of the home; sessions stay in that. Never from a file in a project's directory."""
    location: Location | None = None
    """The memory of one person of many, in place of the project's; set by a program, not by a setting."""
    extra_guidelines: str | None = None
    mode: Literal["topics", "daily"] = "topics"
    """One file a memory, or one log a day that the dream sorts later (M17)."""
    index: bool = True
    """Off: `MEMORY.md` is neither loaded nor needed; only recall finds a memory (M19)."""
    team: bool = False
    """Whether there is a memory that all who work on the repository share (M18)."""
    team_remote: str | None = None
    """Where that is shared: a git remote of the project by name, the address of one, or `folder:/path`."""
    sync_remote: str | None = None
    """Where your own memories meet those of your other machines: the address of a private git repository,
    `folder:/path`, or `server:https://…` of `nacre serve` (M18b)."""
    instruction_excludes: tuple[ListEntry, ...] = ()
    """The setting `claudeMdExcludes`: globs on absolute paths of instructions files and rules that are not
    loaded; those of an administrator always are (M22)."""

    @property
    def keeps_index(self) -> bool:
        """Whether a saved memory gets an index line: not if no index is loaded, or a dream writes it."""
        return self.index and self.mode != "daily"

    @property
    def is_on(self) -> bool:
        """The first rule that applies decides (M7)."""
        if self.disabled is not None:
            return not self.disabled
        if self.simple or (self.remote and self.remote_directory is None):
            return False
        return self.enabled is not False


@dataclass(frozen=True, slots=True)
class SettingsProblem:
    """Something in the settings that is not as it should be."""

    place: str
    """The file or variable."""
    message: str
    is_error: bool = False
    """The value cannot be used; a warning only goes unheeded."""

    @property
    def line(self) -> str:
        return f"{self.place}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything configured for this run, read once."""

    home: Path
    cwd: Path
    project_root: Path
    """The directory whose `.nacre/` holds the project's settings, and which the user may trust."""
    is_trusted: bool = False
    wants_trust: tuple[str, ...] = ()
    """Settings of the project that are ignored until the user trusts it; empty once they were asked."""
    is_interactive: bool = False
    """A person goes on talking here; no file says so, but the door that was opened."""
    model: str | None = None
    """None: chosen by the keys that are present (P3)."""
    small_model: str | None = None
    fallback_model: str | None = None
    """Takes over for the rest of a turn when the main model is out of reach."""
    roles: RoleModels = field(default_factory=RoleModels)
    anthropic: Endpoint = field(default_factory=Endpoint)
    openai: Endpoint = field(default_factory=Endpoint)
    thinking: ThinkingLevel | None = None
    """How much the model thinks, for all vendors; None sends nothing and leaves it to the model (P8)."""
    max_output_tokens: int | None = None
    """Tokens of one reply; None: 8,192, and 64,000 on a second try when that was too little."""
    profile: Literal["auto", "small", "full"] = "auto"
    """`small`: six tools, a short memory manual, no index, and shorter tool results; `auto` uses it for
    windows below 16,384 tokens."""
    max_turns: int = 100
    """Model calls in one turn: of 762 recorded in real sessions the median took 5, and one more than 100."""
    cache_ttl: CacheTtl = "5m"
    """The lifetime that costs least to write; an hour pays only for sessions with long pauses.

    `mixed` keeps what never changes for an hour, `auto` chooses by the session's own pauses.
    """
    max_context_tokens: int | None = None
    """A window for models that no table knows; may lower a known one (C3)."""
    autocompact: Autocompact = field(default_factory=Autocompact)
    retry: Retry = field(default_factory=Retry)
    keep_warm: KeepWarmSettings = field(default_factory=KeepWarmSettings)
    spend: SpendSettings = field(default_factory=SpendSettings)
    tools: ToolLimits = field(default_factory=ToolLimits)
    offload: OffloadSettings = field(default_factory=OffloadSettings)
    results: ResultSettings = field(default_factory=ResultSettings)
    microcompact: MicrocompactSettings = field(default_factory=MicrocompactSettings)
    notes: NotesSettings = field(default_factory=NotesSettings)
    compaction: CompactSettings = field(default_factory=CompactSettings)
    dream: DreamSettings = field(default_factory=DreamSettings)
    extract: ExtractSettings = field(default_factory=ExtractSettings)
    recall: RecallSettings = field(default_factory=RecallSettings)
    background: BackgroundSettings = field(default_factory=BackgroundSettings)
    terminal: TerminalSettings = field(default_factory=TerminalSettings)
    agents: AgentSettings = field(default_factory=AgentSettings)
    permissions: Permissions = field(default_factory=Permissions)
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    switches: Switches = field(default_factory=Switches)
    memory: MemorySettings = field(default_factory=MemorySettings)
    hooks: JsonObject = field(default_factory=dict)
    commands: JsonObject = field(default_factory=dict)
    mcp_servers: JsonObject = field(default_factory=dict)
    models: JsonObject = field(default_factory=dict)
    """Rows over the table of models: prices, windows and cache rules by name (P5)."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment with the files' `env` blocks around it; it holds keys, so it is never shown.

    Base URLs stand in it as they are in force, so that what reads it needs no second place to look.
    """
    env_names: tuple[str, ...] = ()
    """Variables that came from the files' `env` blocks."""
    origins: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[SettingsProblem, ...] = ()
    claude_settings: bool = True
    """Read permission rules, hooks and memory switches of Claude Code's settings as well; see
    [how](../how-to/claude-settings.md)."""
    claude_notes: tuple[SettingsProblem, ...] = ()
    """Parts of Claude Code's settings that nacre does not use, or uses differently."""
    files: tuple[Path, ...] = field(default=(), compare=False)
    """The files that were read, or would be if they existed."""
    read_again: Callable[[], Settings] | None = field(default=None, repr=False, compare=False)
    """Reads the same sources again; None for settings that were not loaded."""

    def origin(self, name: str) -> str:
        """Where the value of a setting such as `model` or `switches.notes` came from."""
        return self.origins.get(name, "default")

    def reading_refusal(self, path: Path) -> str:
        """Return why a file of the project is not loaded for the model: a rule denies or asks for reading it.

        Empty if no rule does. A rule that cannot be read counts as one against every file.
        """
        from nacre.tools.rules import parse_rule, rule_against  # noqa: PLC0415 - few projects have such rules

        given = self.permissions
        try:
            rules = [parse_rule(one.text, "deny", one.origin) for one in given.deny]
            rules += [parse_rule(one.text, "ask", one.origin) for one in given.ask]
            found = rule_against(rules, path, root=self.project_root)
        except (ConfigError, ValueError, RuntimeError) as error:
            return f"the permission rules cannot be read ({error})"
        return f"{found.text} ({found.origin or 'a rule'}) says {found.effect}" if found else ""

    def require_sound(self) -> None:
        """Raise `ConfigError` when a value somewhere cannot be used."""
        errors = [problem.line for problem in self.problems if problem.is_error]
        if errors:
            more = f" (and {len(errors) - 1} more; see `nacre doctor`)" if len(errors) > 1 else ""
            raise ConfigError(errors[0] + more)
