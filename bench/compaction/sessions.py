"""Long sessions with a person who states rules, made up, the same every time.

Rules name paths, numbers and commands, in several languages; some are corrected later, some stand inside a
long paste, some in the project's instructions file. Tasks are done, cancelled or wait for approval. In
between there is chatter, and there are rounds of tools with results as large as recorded ones are.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from nacre.messages.blocks import Json, JsonObject

Kind = Literal["rule", "correction", "pasted", "waiting", "task", "file"]
"""Where something to be kept was said: in a message, as a correction, inside a long paste, …"""
SIZES, WEIGHTS = (300, 1_200, 3_000, 7_000, 16_000), (30, 30, 22, 14, 4)
"""Characters of a result and how often there is one: a median near 1,200, as in recorded sessions."""
ROUNDS = (2, 3, 4, 5, 6, 8)
"""Rounds of a turn."""
PASTE_CHARS = (3_000, 6_000, 11_000)
MARKS = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]", "cancelled": "[-]"}
"""As the task list shows them."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that must still be there after a compaction, word for word."""

    id: str
    kind: Kind
    text: str
    """Of a task: its title."""
    replaces: str = ""
    """The rule that no longer counts."""


@dataclass(frozen=True, slots=True)
class Round:
    """One call and its result."""

    call_id: str
    tool: str
    input: JsonObject
    result: str


@dataclass(frozen=True, slots=True)
class Turn:
    """What a person said, what was done about it, and the closing words."""

    words: str
    rounds: tuple[Round, ...]
    closing: str
    rules: tuple[Rule, ...] = ()
    """Stated in this turn."""
    states: tuple[tuple[str, str], ...] = ()
    """The task list as it stands from this turn on, title and state; empty: unchanged."""


@dataclass(frozen=True, slots=True)
class Scripted:
    """One session."""

    name: str
    instructions: str
    """The project's instructions file."""
    file_rules: tuple[Rule, ...]
    turns: tuple[Turn, ...]


@dataclass(slots=True)
class Known:
    """What counts at a moment, as the person would say."""

    rules: dict[str, Rule] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    """Words of a rule that no longer counts, by the id of what replaced it."""
    states: dict[str, str] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    """Everything the person said."""

    def copy(self) -> Known:
        return Known(dict(self.rules), dict(self.replaced), dict(self.states), list(self.words))

    def hear(self, turn: Turn) -> None:
        self.words.append(turn.words)
        for rule in turn.rules:
            if rule.replaces in self.rules:
                self.replaced[rule.id] = self.rules.pop(rule.replaces).text
            self.rules[rule.id] = rule

    def see(self, turn: Turn) -> None:
        """The rounds of a turn are over: its tasks stand as it left them."""
        if turn.states:
            self.states = dict(turn.states)


RULES = (
    "Never touch {path}/, it is written by {tool} and checked in as it is.",
    "Always run `make {target}` before you commit anything under {path}.",
    "Keep every line in {path} under {number} characters.",
    "The timeout of {symbol} stays at {number} ms, whatever the tests say.",
    "答案一律用中文写，代码注释用英文，文件 {path} 除外。",
    "在 {path} 里最多允许 {number} 个重试，不要改这个上限。",
    "Bitte in {path} nur Tabulatoren, {number} Spalten breit, keine Leerzeichen.",
    "N'appelle jamais {symbol} depuis {path}, passe par la file d'attente {number}.",
    "Use {symbol} from {path} instead of writing another parser; ticket OPS-{number}.",
    "No new dependencies in {path} unless I say so, and never {tool} above 4.{number}.",
    "Log to stderr only in {path}; port {number} is scraped and must stay quiet.",
    "If {symbol} fails, stop and ask me: do not retry it on the {number} cluster.",
)
CORRECTION = (
    "I was wrong about {path}: from now on it is {number}, for {symbol} as well, forget what I said before."
)
PASTED = "By the way, hidden in there: {symbol} must return HTTP {number} when {path} is missing."
WAITING = "The change of {symbol} in {path} waits for my approval; do not merge !{number} before I say so."
CHATTER = (
    "Go on.", "ok", "Looks good so far, continue please.", "Why did that fail?", "hm, and now?", "继续",
    "Weiter.", "What does the log say?", "Fine. Next one.", "Can you check that again, slowly this time?",
    "thanks!", "I will be back in ten minutes, keep going until the suite is green.",
)  # fmt: skip
TARGETS = ("check", "lint", "unit", "verify", "golden")
TOOLS = ("protoc", "sqlc", "openapi-gen", "buf", "jsonnet")
NOUNS = ("billing", "ledger", "router", "invoice", "quota", "session", "mailer", "search", "export", "tenant")


def session(number: int, turns: int) -> Scripted:
    """One of them, of so many turns."""
    return _Script(number).session(turns)


class _Script:
    """One session as it is made up."""

    def __init__(self, number: int) -> None:
        self._chance = random.Random(number)
        self._number = number
        self._made = 0
        self._plain: list[Rule] = []
        self._tasks: list[tuple[str, str]] = []

    def session(self, turns: int) -> Scripted:
        file_rules = tuple(self._rule("file", RULES) for _ in range(6))
        lines = "\n".join(f"- {rule.text}" for rule in file_rules)
        return Scripted(
            name=f"rules-{self._number}",
            instructions=f"# How we work here\n\n{lines}\n",
            file_rules=file_rules,
            turns=tuple(self._turn(place) for place in range(turns)),
        )

    def _turn(self, place: int) -> Turn:
        words, rules = self._words(place)
        rounds = [self._round() for _ in range(self._chance.choice(ROUNDS))]
        states: tuple[tuple[str, str], ...] = ()
        if place % 9 == 4:
            states = self._new_states()
            rounds.append(self._list_of(states))
        closing = f"Done with this part; {self._symbol()} in {self._path()} is next."
        return Turn(words, tuple(rounds), closing, rules, states)

    def _words(self, place: int) -> tuple[str, tuple[Rule, ...]]:
        """A rule every other turn; now and then a correction, a paste, something that waits; else chatter."""
        if place % 17 == 11:
            rule = self._rule("pasted", (PASTED,))
            paste = list(self._lines(self._chance.choice(PASTE_CHARS)))
            paste.insert(len(paste) // 2, rule.text)
            return "Here is the whole report:\n" + "\n".join(paste), (rule,)
        if place % 13 == 9 and self._plain:
            old = self._plain.pop(self._chance.randrange(len(self._plain)))
            rule = self._rule("correction", (CORRECTION,), replaces=old.id)
            return f"Stop. {rule.text} Take back what you changed.", (rule,)
        if place % 11 == 6:
            rule = self._rule("waiting", (WAITING,))
            return f"{rule.text} Meanwhile look at {self._path()}.", (rule,)
        if place % 2 == 0:
            rule = self._rule("rule", RULES)
            self._plain.append(rule)
            return f"{rule.text} Now fix {self._symbol()} in {self._path()}.", (rule,)
        return self._chance.choice(CHATTER), ()

    def _rule(self, kind: Kind, forms: Sequence[str], replaces: str = "") -> Rule:
        self._made += 1
        text = self._chance.choice(forms).format(
            path=self._path(),
            symbol=self._symbol(),
            number=self._chance.randrange(100, 9_999),
            target=self._chance.choice(TARGETS),
            tool=self._chance.choice(TOOLS),
        )
        return Rule(f"rule-{self._made}", kind, text, replaces)

    def _new_states(self) -> tuple[tuple[str, str], ...]:
        """Two more tasks; of the older ones some are done or cancelled now."""
        chance = self._chance
        self._tasks = [
            (title, chance.choice(("done", "cancelled")) if state in {"pending", "in_progress"} else state)
            for title, state in self._tasks
        ]
        for state in ("in_progress", "pending"):
            self._tasks.append(
                (f"Move {self._symbol()} out of {self._path()} ({len(self._tasks) + 1})", state)
            )
        return tuple(self._tasks)

    def _list_of(self, states: Sequence[tuple[str, str]]) -> Round:
        listed: list[Json] = [{"title": title, "state": state} for title, state in states]
        shown = "\n".join(f"{n}. {MARKS[state]} {title}" for n, (title, state) in enumerate(states, 1))
        return Round(self._call(), "TaskList", {"tasks": listed}, shown)

    def _round(self) -> Round:
        lines = "\n".join(self._lines(self._chance.choices(SIZES, WEIGHTS)[0]))
        command = f"grep -rn {self._symbol()} {self._path()}"
        return Round(self._call(), "Bash", {"command": command}, lines)

    def _call(self) -> str:
        self._made += 1
        return f"call_{self._number}_{self._made}"

    def _lines(self, size: int) -> Iterator[str]:
        chance, written = self._chance, 0
        while written < size:
            line = f"{self._path()}:{chance.randrange(900)}: {self._symbol()} = {chance.random():.9f}"
            written += len(line) + 1
            yield line

    def _path(self) -> str:
        chance = self._chance
        return f"{chance.choice(NOUNS)}/{chance.choice(NOUNS)}_{chance.randrange(1_000)}.py"

    def _symbol(self) -> str:
        return f"{self._chance.choice(NOUNS)}_{self._chance.choice(NOUNS)}_{self._chance.randrange(1_000)}"
