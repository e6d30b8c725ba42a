"""Writes docs/reference/settings.md from the table of settings; `make docs` runs it, a test compares."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from functools import cache
from pathlib import Path

from nacre.settings import values
from nacre.settings.schema import KEYS, SettingKey, SettingScope

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "settings.md"
SOURCE = ROOT / "src" / "nacre"
HEAD = """\
# Settings

Written by `make docs` from the table of settings; change that table, not this page.

## Where a setting comes from

The first that says something decides:

1. policy: `/etc/nacre/settings.json`
2. the command line (`--model`, `--max-turns`, …)
3. the environment: the variable in the table below, nacre's own name before the others
4. `.nacre/settings.local.json` in the project: yours alone, not committed
5. `.nacre/settings.json` in the project: shared
6. `settings.json` in nacre's home
7. [Claude Code's settings](../how-to/claude-settings.md): permission rules, hooks and memory switches
8. the default

To the lists of `permissions` every source adds.

Files are JSON; a name with a dot is an object inside an object: `{"autocompact": {"pct": 80}}`. A variable
holds a list as JSON, `["Bash(make:*)", "Edit(/src/**)"]`, or one text of it.
`nacre doctor --all` shows every value in force and where it came from.

Settings are read when a session is opened. Of a file that changes meanwhile, the switches `offload`,
`clear_idle`, `keep_warm`, `notes`, `notes_compact`, `compact`, `compact_prepare`, `recall`, `extract` and
`dream` act at the next turn; a layer that was off when the session was opened, and everything else, waits
until it is opened again.

An unknown name is a warning. One in or like `permissions` and `sandbox`, a value that cannot be used, and a
name that occurs twice in an object are errors, because a restriction could be lost; in a directory that is
not trusted, each tool call then needs your permission and memory is off.

nacre's home is `~/.nacre`, or what `NACRE_HOME` says. Keys are read from `ANTHROPIC_API_KEY` and
`OPENAI_API_KEY`, never from a settings file by name.

## Which model answers

A name decides who serves it: `claude-…` goes to Anthropic, `gpt-…` to OpenAI, `embedded` to nacre's own
engine. `anthropic:NAME` and `openai:NAME` name the provider; with `OPENAI_BASE_URL` set, any other name goes
there. Short names are `opus`, `sonnet`, `haiku`. Without a name, the first key that is set decides,
Anthropic's before OpenAI's; without a key the embedded engine answers.

## What a project may set

A project's files come with whatever was cloned, so some settings are not taken from them, or only once you
trust the directory: the chat asks on its first start there, and `trust.json` in nacre's home lists those you
trust. The last column says which. [Permissions](permissions.md) has more about it.

A file of yours with an error stops the command. A project's file in a directory that you do not trust does
not: one line names the error, and until it is corrected each tool call there needs your permission, and
memory is off.

## All settings

Settings marked *not yet* are checked and shown, but the part of nacre that will read them is not there yet.
"""
COLUMNS = (
    "| setting | value | default | variables | meaning | from a project's files |\n|---|---|---|---|---|---|"
)
_FROM_PROJECT = {
    SettingScope.ANYWHERE: "yes",
    SettingScope.TRUSTED: "once trusted",
    SettingScope.NOT_PROJECT: "only the local one",
    SettingScope.OFF_ONLY: "only `false`",
    SettingScope.NOT_REPOSITORY: "no",
    SettingScope.START: "no (nor the user's file)",
}


def text() -> str:
    """The page as it should be now."""
    return "\n".join([HEAD, COLUMNS, *(_row(key) for key in KEYS.values()), ""])


def _row(key: SettingKey) -> str:
    variables = ", ".join(f"`{name}`" for name in (key.variable, *key.aliases))
    meaning = " ".join(
        part for part in ("" if is_read(key) else "*not yet*", _meaning(key.path)) if part
    ).replace("|", "\\|")
    cells = (
        f"`{key.name}`",
        key.kind.allowed,
        _default(key.path),
        variables,
        meaning,
        _FROM_PROJECT[key.reach],
    )
    return f"| {' | '.join(cells)} |"


def is_read(key: SettingKey) -> bool:
    """Whether anything but the settings themselves and `doctor` looks at this setting."""
    if key.path[0] in {"anthropic", "openai"}:
        return True  # through the environment, in which they stand as they are in force
    if len(key.path) == 1:
        wanted = rf"settings\.{key.path[0]}\b"
    else:
        part, name = key.path
        # A part that is handed on counts as read; of the switches each is read by name, whoever holds them.
        handed_on = "" if part == "switches" else rf"|settings\.{part}\b(?!\.)"
        wanted = rf"\b{part}\.{name}\b{handed_on}"
    return re.search(wanted, _readers()) is not None


@cache
def _readers() -> str:
    rooms = sorted(path for path in SOURCE.rglob("*.py") if path.parent.name != "settings")
    return "\n".join(path.read_text(encoding="utf-8") for path in rooms if path.name != "doctor.py")


def _default(path: tuple[str, ...]) -> str:
    if path in {("home",), ("environ",)}:
        return "`~/.nacre`" if path == ("home",) else "-"
    value: object = values.Settings(home=Path(), cwd=Path(), project_root=Path())
    for word in path:
        value = getattr(value, word)
    match value:
        case None | {} | ():
            return "-"
        case bool():
            return f"`{str(value).lower()}`"
        case _:
            return f"`{value}`"


_SAID_HERE: dict[tuple[str, ...], str] = {
    ("home",): "Where the user's sessions and settings are kept.",
    ("model",): "The model to ask; unset, chosen by the keys that are present.",
    ("small_model",): (
        "The model for short side questions, and for notes and extraction where it costs less; unset, the "
        "vendor's small model writes those."
    ),
    (
        "fallback_model",
    ): "Answers while the main model is out of reach; see [how](../how-to/use-a-fallback-model.md).",
    ("roles",): "The model for this kind of side work.",
    ("anthropic",): "Where requests go; unset, to the vendor itself.",
    ("openai",): "Where requests go; unset, to the vendor itself.",
    ("max_output_tokens",): "Tokens of one reply.",
    ("max_turns",): "Model calls in one turn.",
    (
        "cache_ttl",
    ): "How long the provider keeps a prefix; longer costs more to write; `auto` chooses by your pauses, "
    "see [how](../how-to/keep-the-cache-warm.md).",
    ("keep_warm", "margin_seconds"): "How long before the cache expires it is refreshed.",
    ("keep_warm", "max_refreshes"): "Refreshes of the cache in one pause.",
    ("keep_warm", "max_usd"): "Dollars that refreshes may cost in one session.",
    ("keep_warm", "max_share"): "And of what its conversation has cost so far.",
    (
        "autocompact",
        "pct",
    ): "The percent of the effective window at which compaction is due; moves the warning too.",
    ("autocompact", "window"): "As if the window had this many tokens; never more than it has.",
    ("tools", "timeout_seconds"): "How long a tool may run when the call does not say.",
    ("offload", "max_chars"): "A longer tool result goes to a file; a preview and its path stay.",
    ("offload", "round_chars"): "All results of one round together; over it the largest go to files, too.",
    ("offload", "image_tokens"): (
        "All pictures and documents of one round together; others go to files, the first is always shown."
    ),
    (
        "offload",
        "per_tool",
    ): 'Characters by tool, as in `{"Bash": 20000}`; they decide before `offload.maxChars`.',
    ("switches", "search_past"): "The model may search earlier sessions.",
    ("switches", "grounding"): "A fact without support in the conversation is not saved.",
    ("memory", "enabled"): "Whether there is memory at all.",
    ("memory", "directory"): "Where memory is kept.",
    (
        "memory",
        "home",
    ): "Below which folder memory is kept, in place of the home; see [why](../how-to/use-in-claude-code.md).",
    ("memory", "disabled"): "Decides before every other setting whether there is memory; also `--no-memory`.",
    ("memory", "simple"): "No memory, no notes, no background work; also `--bare`.",
    ("memory", "extra_guidelines"): "Further words to the agent about its memory.",
    ("environ",): "Variables for nacre, keys among them; what the environment says itself is stronger.",
    ("hooks",): "Commands of yours at fixed points.",
    ("commands",): "Slash commands of yours.",
    ("mcp_servers",): "Tools of MCP servers; see [their page](mcp.md).",
}
"""Where the words in the code are for those who read the code, or there are none."""


def _meaning(path: tuple[str, ...]) -> str:
    said = _SAID_HERE.get(path) or _SAID_HERE.get(path[:1])
    owner = "Settings" if len(path) == 1 else _owner(path[0])
    words = said or _docstrings()[owner, path[-1]]
    # Ids of rules mean something to those who change nacre, not to those who set it up.
    return re.sub(r" \([A-Z]\d+\w?(, [A-Z]\d+\w?)*\)", "", " ".join(words.split()))


def _owner(part: str) -> str:
    """The class that holds the fields of a group such as `switches`."""
    return type(getattr(values.Settings(home=Path(), cwd=Path(), project_root=Path()), part)).__name__


@cache
def _docstrings() -> dict[tuple[str, str], str]:
    """What stands under each field in the code: the attribute's own words, in whichever room its class is."""
    whole = values.Settings(home=Path(), cwd=Path(), project_root=Path())
    modules = {type(getattr(whole, field.name)).__module__ for field in fields(whole)}
    files = [SOURCE.parent / f"{name.replace('.', '/')}.py" for name in modules if name.startswith("nacre.")]
    found: dict[tuple[str, str], str] = {}
    for group in (each for file in files for each in ast.parse(file.read_text(encoding="utf-8")).body):
        if not isinstance(group, ast.ClassDef):
            continue
        for field, after in zip(group.body, group.body[1:], strict=False):
            match field, after:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    found[group.name, name] = words
    return found


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8", newline="\n")
