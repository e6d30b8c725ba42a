"""How many memories would be served although what they name is gone, with and without the drift check (R12).

A repository's history is replayed. At commit A memories are made that name functions, constants, files, flags
and make targets which exist then. At a later commit B each is checked as a turn would check it, within 50 ms.
Whether it is stale is decided apart from that, slowly, by all words of all files at B: stale is a memory of
which one reference or more is no longer there. A function counts as there while its name stands in a file
that is not a page; `by_definition` asks more: that it is still defined somewhere.
"""

from __future__ import annotations

import random
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from bench.machine import bar
from bench.plot import chart
from bench.staleness_trees import MadeUp, check_out, commits, git, own_history
from nacre.memory.recall.drift.check import BUDGET_SECONDS, check, check_each
from nacre.memory.recall.drift.tree_files import read_tree
from nacre.memory.recall.drift.words import SearchWord, WordCache, search_words
from nacre.messages.blocks import Json, JsonObject

PAGES = (".adoc", ".changelog", ".markdown", ".md", ".mdx", ".po", ".rst", ".txt")
MOST_SERVED = 0.05
"""Of the stale memories, so many may still be served as if true."""
MOST_FALSE_ALARMS = 0.02
"""Of the memories that hold, so many may be called stale in part."""
MOST_SINGLES = 300
"""Of one pair of commits; the first ones tell enough."""
GENEROUS = 60.0
"""Seconds for a check that is not timed."""
UNTIL_OLD = 0.15
"""Seconds until every stamp is old enough to be believed."""
PICKS = 5
"""Memories that a turn checks together."""
ENGLISH = ("The entry is {0}.", "Changes to {0} need {1}.", "Always start at {0}, then {1}; {2} is slow.",
           "Use {0} with {1} and {2}, never without {3}.")  # fmt: skip
CHINESE = (
    "入口是{0}。",
    "修改{0}时要用{1}。",
    "先看{0}，再看{1}；{2}很慢。",
    "使用{0}、{1}和{2}，不要忘记{3}。",
)
_DEFINED = re.compile(
    r"^\s*(?:async )?(?:def|class|export function) (\w+)|^([A-Z][A-Z0-9_]+)(?::[^=]+)? = ",
    re.MULTILINE,
)
_NAMES = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_FLAGS = re.compile(r"(?<![\w-])--[a-z][a-z0-9]+(?:-[a-z0-9]+)+(?![\w-])")
_TARGETS = re.compile(r"^([a-z][a-z0-9_-]*):(?!=)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    gaps: tuple[int, ...] = (1, 5, 20, 60, 120)
    """Commits between the writing of a memory and the question."""
    stops: int = 16
    """Commits at which questions are asked, spread over a history."""
    memories: int = 20
    """For each stop and gap."""
    own_commits: int = 10_000
    """At most so many of this repository's newest."""
    files: int = 400
    commits: int = 130
    large_files: int = 5_000
    large_commits: int = 22
    large_file_bytes: int = 6_000


FULL = Sizes()
TINY = Sizes(
    gaps=(1, 3), stops=2, memories=4, own_commits=8, files=20, commits=6, large_files=30, large_commits=6,
    large_file_bytes=500,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class There:
    """What a commit has, by all words of all files."""

    paths: frozenset[str]
    names: frozenset[str]
    """Of files that are not pages."""
    defined: frozenset[str]
    flags: frozenset[str]
    targets: frozenset[str]

    def has(self, kind: str, name: str) -> bool:
        match kind:
            case "path":
                return name in self.paths
            case "flag":
                return name in self.flags
            case "target":
                return name in self.targets
            case _:
                return name in self.names


@dataclass(frozen=True, slots=True)
class Made:
    """A memory that was made at some commit."""

    text: str
    references: tuple[tuple[str, str], ...]


@dataclass
class Tally:
    """What became of the memories of one gap."""

    memories: int = 0
    stale: int = 0
    served: int = 0
    """Stale, and nothing was said to be gone."""
    served_open: int = 0
    """Of those, the ones of which not everything could be looked for in time."""
    served_silently: int = 0
    """Stale, and neither was anything said to be gone nor anything not to have been checked."""
    false_alarms: int = 0
    undefined: int = 0
    """Memories that name a function, class or constant which is no longer defined."""
    undefined_served: int = 0

    def figures(self) -> JsonObject:
        holding = self.memories - self.stale
        return {
            "memories": self.memories,
            "stale": self.stale,
            "stale_share": _share(self.stale, self.memories),
            "stale_served": self.served,
            "stale_served_for_lack_of_time": self.served_open,
            "stale_served_without_a_word": self.served_silently,
            "served_of_stale_without_check": 1.0 if self.stale else 0.0,
            "served_of_stale_with_check": _share(self.served, self.stale),
            "served_share_without_check": _share(self.stale, self.memories),
            "served_share_with_check": _share(self.served, self.memories),
            "false_alarms": self.false_alarms,
            "false_alarms_of_holding": _share(self.false_alarms, holding),
            "by_definition": {
                "stale": self.undefined,
                "stale_served": self.undefined_served,
                "served_of_stale": _share(self.undefined_served, self.undefined),
            },
        }


@dataclass
class Times:
    one: list[float] = field(default_factory=list)
    five: list[float] = field(default_factory=list)


def measure(sizes: Sizes = FULL) -> JsonObject:
    found: dict[str, JsonObject] = {}
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as base:
        for name, prepare in _repositories(Path(base), sizes).items():
            folder = Path(base) / name
            if prepare(folder):
                found[name] = _replayed(name, folder, sizes)
    repositories: dict[str, Json] = {**found}
    return {"budget_ms": BUDGET_SECONDS * 1000, "repositories": repositories, "bars": _bars(found)}


def plot(figures: JsonObject) -> str:
    """Stale memories that are served as true, over the commits since they were written."""
    lines: dict[str, dict[float, float]] = {}
    for name, repository in _objects(figures["repositories"]):
        for word in ("without", "with"):
            if name != "large":
                lines[f"{name}, {word} check"] = {
                    float(gap): 100 * float(str(one[f"served_share_{word}_check"]))
                    for gap, one in _objects(repository["gaps"])
                }
    return chart(
        "Memories served as true although something they name is gone",
        lines,
        x="commits since the memory was written",
        y="percent of all memories",
    )


def _repositories(base: Path, sizes: Sizes) -> dict[str, Callable[[Path], bool]]:
    def made_up(folder: Path) -> bool:
        MadeUp(folder, files=sizes.files, file_bytes=2_000).grow(sizes.commits)
        return True

    def large(folder: Path) -> bool:
        project = MadeUp(folder, files=sizes.large_files, file_bytes=sizes.large_file_bytes, seed=11)
        project.grow(sizes.large_commits)
        return True

    return {"own": own_history, "made_up": made_up, "large": large}


def _replayed(name: str, folder: Path, sizes: Sizes) -> JsonObject:
    history = commits(folder)[-sizes.own_commits :]
    chance = random.Random(3)
    tallies = {gap: Tally() for gap in sizes.gaps if gap < len(history)}
    times, cached_times = Times(), Times()
    cached = {gap: Tally() for gap in tallies}
    singles: dict[str, int] = {}
    there = cache(lambda commit: contents_at(folder, commit))
    words = WordCache(folder.parent / f"{folder.name}-words", folder)
    step = max(1, len(history) // sizes.stops)
    for at in sorted(range(len(history) - 1, 0, -step)[: sizes.stops]):
        check_out(folder, history[at])
        time.sleep(UNTIL_OLD)
        words.update()
        now = there(history[at])
        for gap in (gap for gap in tallies if gap <= at):
            count = sizes.memories // 2 if name == "large" else sizes.memories
            made = [made_memory(there(history[at - gap]), chance) for _ in range(count)]
            _ask(made, folder, now, tallies[gap], times)
            if name == "large":
                _ask(made, folder, now, cached[gap], cached_times, known=words)
                continue
            _name_all_gone(there(history[at - gap]), now, folder, singles)
    tree = read_tree(folder, is_late=lambda: False)
    gaps: dict[str, Json] = {str(gap): tally.figures() for gap, tally in tallies.items() if tally.memories}
    return {
        "commits": len(history),
        "files": len(tree.files),
        "bytes": sum(one.size for one in tree.files),
        "gaps": gaps,
        "all": _summed(tallies.values()).figures(),
        "one_memory_ms": _spread(times.one),
        "five_memories_ms": _spread(times.five),
        "every_reference_that_went": {**dict(sorted(singles.items()))},
        "engines_ms": _engines(folder, now, chance),
        **_cached_figures(_summed(cached.values()), cached_times),
    }


def _cached_figures(tally: Tally, times: Times) -> JsonObject:
    """The same memories with the tree's words kept from before, as a session keeps them for a large tree."""
    if not tally.memories:
        return {}
    return {
        "with_word_cache": {
            "all": tally.figures(),
            "one_memory_ms": _spread(times.one),
            "five_memories_ms": _spread(times.five),
        }
    }


def _name_all_gone(then: There, now: There, folder: Path, singles: dict[str, int]) -> None:
    """Every single thing that went, each in a memory of its own: chance names few of them."""
    gone = [("symbol", f"`{name}()`") for name in _shaped(then) if name not in now.names]
    gone += [("path", f"`{path}`") for path in _files(then) if path not in now.paths]
    gone += [("flag", f"`{flag}`") for flag in sorted(then.flags - now.flags)]
    gone += [("target", f"`make {target}`") for target in sorted(then.targets - now.targets)]
    drifts = check_each([f"Use {word}." for _, word in gone[:MOST_SINGLES]], folder, budget_seconds=GENEROUS)
    for (kind, _), drift in zip(gone, drifts, strict=False):
        singles[f"{kind}s_gone"] = singles.get(f"{kind}s_gone", 0) + 1
        singles[f"{kind}s_missed"] = singles.get(f"{kind}s_missed", 0) + (not drift.gone)


def _ask(
    made: Sequence[Made],
    folder: Path,
    now: There,
    tally: Tally,
    times: Times,
    *,
    known: WordCache | None = None,
) -> None:
    for memory in made:
        begin = time.perf_counter()
        drift = check(memory.text, folder, words=known)
        times.one.append((time.perf_counter() - begin) * 1000)
        is_stale = not all(now.has(kind, name) for kind, name in memory.references)
        symbols = [name for kind, name in memory.references if kind == "symbol"]
        is_undefined = any(name not in now.defined for name in symbols)
        tally.memories += 1
        tally.stale += is_stale
        tally.served += is_stale and not drift.gone
        tally.served_open += is_stale and not drift.gone and bool(drift.unchecked)
        tally.served_silently += is_stale and not drift.gone and not drift.unchecked
        tally.false_alarms += not is_stale and bool(drift.gone)
        tally.undefined += is_undefined
        tally.undefined_served += is_undefined and not drift.gone
    for at in range(0, len(made) - PICKS + 1, PICKS):
        texts = [memory.text for memory in made[at : at + PICKS]]
        begin = time.perf_counter()
        check_each(texts, folder, words=known)
        times.five.append((time.perf_counter() - begin) * 1000)


def contents_at(folder: Path, commit: str) -> There:
    """Everything a commit has, read from git's objects and not from the working tree."""
    listed = [
        line.partition("\t")
        for line in git(folder, "ls-tree", "-r", "-z", commit).decode().split("\0")
        if line
    ]
    blobs = {path: meta.split()[2] for meta, _, path in listed if meta.startswith("100")}
    names: set[str] = set()
    defined: set[str] = set()
    flags: set[str] = set()
    targets: set[str] = set()
    for path, text in _texts(folder, blobs):
        flags.update(_FLAGS.findall(text))
        if not path.lower().endswith(PAGES):
            names.update(_NAMES.findall(text))
            defined.update(one or other for one, other in _DEFINED.findall(text))
        if path == "Makefile":
            targets.update(_TARGETS.findall(text))
    return There(*map(frozenset, (blobs, names, defined, flags, targets)))


def _texts(folder: Path, blobs: dict[str, str]) -> list[tuple[str, str]]:
    asked = "".join(f"{blob}\n" for blob in blobs.values()).encode()
    answered = subprocess.run(
        ["git", "cat-file", "--batch"], cwd=folder, input=asked, capture_output=True, check=True
    ).stdout
    found, at = [], 0
    for path in blobs:
        end = answered.index(b"\n", at)
        size = int(answered[at:end].split()[2])
        data = answered[end + 1 : end + 1 + size]
        at = end + 2 + size
        if b"\0" not in data[:8_000]:
            found.append((path, data.decode(errors="replace")))
    return found


def made_memory(then: There, chance: random.Random) -> Made:
    """One to four references that hold, in a sentence."""
    choices = {
        "symbol": _shaped(then),
        "path": _files(then),
        "flag": sorted(then.flags),
        "target": sorted(then.targets),
    }
    references = []
    for _ in range(chance.randint(1, 4)):
        kind = chance.choices(["symbol", "path", "flag", "target"], weights=[5, 4, 1, 1])[0]
        kind = kind if choices[kind] else "path"
        references.append((kind, chance.choice(choices[kind])))
    forms = {"symbol": "`{}()`", "path": "`{}`", "flag": "`{}`", "target": "`make {}`"}
    words = [forms[kind].format(name) for kind, name in references]
    sentence = chance.choice([ENGLISH, CHINESE])[len(words) - 1]
    return Made(sentence.format(*words), tuple(references))


def _shaped(there: There) -> list[str]:
    return sorted(name for name in there.defined if "_" in name.strip("_") and not name.startswith("__"))


def _files(there: There) -> list[str]:
    return sorted(path for path in there.paths if path.endswith((".py", ".ts", ".json", ".toml")))


def _engines(folder: Path, now: There, chance: random.Random) -> JsonObject:
    """The same ten words, half of them nowhere, by nacre's one pass and by git's own search."""
    there = chance.sample(sorted(name for name in now.defined if "_" in name), 5)
    words = [*there, *(f"{name}_zz" for name in there)]
    patterns = [part for word in words for part in ("-e", word)]

    def passed() -> object:
        tree = read_tree(folder, is_late=lambda: False)
        return search_words(tree, [SearchWord(word.encode()) for word in words], is_late=lambda: False).found

    def grepped() -> object:
        return git(folder, "grep", "-h", "-o", "-w", "-F", *patterns)

    return {"one_pass": _middle(passed), "git_grep": _middle(grepped)}


def _middle(act: Callable[[], object], rounds: int = 5) -> float:
    took = []
    for _ in range(rounds):
        begin = time.perf_counter()
        act()
        took.append((time.perf_counter() - begin) * 1000)
    return round(statistics.median(took), 1)


def _bars(found: dict[str, JsonObject]) -> list[Json]:
    bars: list[Json] = []
    for name, figures in found.items():
        whole = dict(_objects(figures))["all"]
        times = dict(_objects(figures))["one_memory_ms"]
        false, served = (
            float(str(whole["false_alarms_of_holding"])),
            float(str(whole["served_of_stale_with_check"])),
        )
        bars.append(bar(f"{name}: false alarms among memories that hold", false, at_most=MOST_FALSE_ALARMS))
        if name != "large":
            bars.append(bar(f"{name}: stale memories served as true", served, at_most=MOST_SERVED))
            limit = BUDGET_SECONDS * 1000
            bars.append(bar(f"{name}: one check, milliseconds, p95", float(str(times["p95"])), at_most=limit))
            continue
        silent = _share(int(str(whole["stale_served_without_a_word"])), int(str(whole["stale"])))
        bars.append(bar("large, first check: stale without a word of doubt", silent, at_most=MOST_SERVED))
        if kept := dict(_objects(figures)).get("with_word_cache"):
            served = float(str(dict(_objects(kept))["all"]["served_of_stale_with_check"]))
            bars.append(bar("large, with its words kept: stale served as true", served, at_most=MOST_SERVED))
    return bars


def _summed(tallies: Iterable[Tally]) -> Tally:
    whole = Tally()
    for tally in tallies:
        for name in vars(whole):
            setattr(whole, name, getattr(whole, name) + getattr(tally, name))
    return whole


def _spread(took: Sequence[float]) -> JsonObject:
    ranked = sorted(took) or [0.0]

    def share(part: float) -> float:
        return round(ranked[min(len(ranked) - 1, int(len(ranked) * part))], 2)

    return {"p50": share(0.5), "p95": share(0.95), "max": round(ranked[-1], 2), "checks": len(took)}


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def _objects(value: Json) -> list[tuple[str, JsonObject]]:
    return (
        [(key, one) for key, one in value.items() if isinstance(one, dict)] if isinstance(value, dict) else []
    )
