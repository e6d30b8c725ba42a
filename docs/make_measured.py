"""Writes docs/why/measured.md from bench/results; `make docs` runs it, a test compares."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "why" / "measured.md"
RESULTS = ROOT / "bench" / "results"
LINK = "../../bench/results"
WIDTH = 118
Result = dict[str, Any]
HEAD = """\
# What we measured

Written by `make docs` from the files in [bench/results](../../bench/results); every figure is read off one
of them, and a test fails when they differ. `make bench` measures again; [how each is
done](../../bench/README.md). Recorded sessions and public question sets are not part of the repository, so
some of it can be repeated only by who has them. No result here needed a language model: where one would
write, a stand-in does, for everybody the same.
"""


def text() -> str:
    """The page as it should be now."""
    return "\n\n".join([HEAD.rstrip(), _in_short(), *(part() for part in PARTS), _not_better()]) + "\n"


def _read(name: str) -> Result:
    found: Result = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _part(title: str, names: str, lines: Iterable[str], *, plots: Iterable[str] = ()) -> str:
    """A heading, what was found, pictures, and where it comes from."""
    pictures = [f"![{title}]({LINK}/{plot}.svg)" for plot in plots]
    sources = "; ".join(_source(name) for name in names.split())
    return "\n\n".join([f"## {title}", _filled(lines), *pictures, _filled([f"*{sources}*"])])


def _filled(lines: Iterable[str]) -> str:
    """Prose in lines of one length; rows of tables, and what is empty, stay lines of their own."""
    runs = groupby(lines, key=lambda line: line.startswith(("|", "- ")) or not line)
    return "\n".join(
        line
        for is_apart, run in runs
        for line in (
            run if is_apart else wrap(" ".join(run), WIDTH, break_long_words=False, break_on_hyphens=False)
        )
    )


def _source(name: str) -> str:
    result = _read(name)
    on = result["machine"]
    machine = f"{on['cpu']}, {on['cores']} cores, Python {on['python']}"
    named = [one for one in result.get("peers", {}).values() if one != "written here"]
    against = ", ".join(dict.fromkeys(named)) if name in WITH_PEERS else ""
    peers = f"; beside {against}" if against else ""
    return f"[{name}.json]({LINK}/{name}.json), {result['date'][:10]}, {machine}{peers}"


ROUNDING = 0.01
"""What is cheaper is better where it keeps as much; what is dearer only where it keeps more."""
WITH_PEERS = frozenset({"replay", "recall", "compaction.survival"})
SHOWN_CELLS = ("200K, claude-opus-5-5", "100K, claude-opus-5-5", "60K, claude-opus-5-5", "200K, gpt-6.1-sol")
SHOWN_POLICIES = ("none", "truncate", "claude-code", "nacre", "nacre-model")


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    columns = list(head)
    return [f"| {' | '.join(row)} |" for row in [columns, ["---"] * len(columns), *map(list, rows)]]


def _in_short() -> str:
    """What a reader with one minute should know, the bad news included."""
    poison, notes = _read("poisoning"), _read("notes")["runs"]
    dear = max(run["notes_usd"] / run["conversation_usd"] for run in notes)
    planted = f"{poison['defended']['reached']} of {poison['defended']['attacks']} attacks"
    said = (
        _money(),
        _finding(),
        _rules(),
        f"**Planted memories.** {planted} reach a later session, without the defence "
        f"{poison['undefended']['reached']}.",
        f"**Where it is dear.** Session notes add up to {dear:.0%} to the bill, and there is [more bad "
        "news](#where-nacre-is-not-better).",
    )
    items = [
        wrap(one, WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False) for one in said
    ]
    return "\n".join(["## In short", "", *(line for item in items for line in item)])


def _money() -> str:
    replay = _read("replay")
    cell = next(cell for cell in replay["cells"] if cell["title"] == f"recorded, {SHOWN_CELLS[0]}")
    rows = {row["policy"]: row for row in cell["policies"]}
    peers = [rows[name] for name in replay["peers"]]
    ours, best = rows["nacre"], min(peers, key=lambda row: row["of_append_only"])
    return (
        f"**Money.** {replay['sessions']['recorded']} recorded sessions cost {ours['of_append_only']:.2f} of "
        f"what sending everything costs, and {ours['usable_pairs']:.0f} % of the pairs of names that later "
        f"steps used were in view. The cheapest of {len(peers)} ways of other libraries, {best['policy']}: "
        f"{best['of_append_only']:.2f} and {best['usable_pairs']:.0f} %."
    )


def _finding() -> str:
    result = _read("recall")
    rankers = result["sets"]["locomo_turns"]["score"]["rankers"]
    at_ten = {name: rankers[name]["recall@10"] for name in ("nacre", *result["peers"]) if name in rankers}
    best = max((name for name in at_ten if name != "nacre"), key=lambda name: at_ten[name])
    return (
        f"**Finding memories**, without a model. {at_ten['nacre']:.0%} of LoCoMo's evidence is among the "
        f"first ten; the best other ranker ({best}) has {at_ten[best]:.0%}, mem0 {at_ten['mem0']:.0%}."
    )


def _rules() -> str:
    kept = {
        policy: whole / rules
        for (policy, what), (whole, rules, *_) in _survived().items()
        if what == "windows said"
    }
    others = sorted((share, name) for name, share in kept.items() if not name.startswith("nacre"))
    most = others[-1]
    return (
        f"**Your rules after compactions.** {kept['nacre, by rule']:.0%} are still there word for word. Of "
        f"{len(others)} other ways {most[1]} keeps {most[0]:.0%}, at a higher bill than sending everything; "
        f"the others {others[0][0]:.0%} to {others[-2][0]:.0%}."
    )


def _replay() -> str:
    result = _read("replay")
    cells = {cell["title"]: cell for cell in result["cells"]}
    chosen = [cells[f"recorded, {name}"] for name in SHOWN_CELLS]
    rows = [
        [policy, *(_kept_for(cell, policy) for cell in chosen)]
        for policy in (*SHOWN_POLICIES, *result["peers"])
    ]
    sessions = result["sessions"]["recorded"]
    lines = [
        f"{sessions} recorded sessions, replayed: cost as a share of only ever",
        "appending / percent of the pairs of",
        "names that later steps used and that were in view (in requests that fitted the window).",
        "`nacre` asks no model beside the conversation, `nacre-model` asks for summaries; neither",
        "pays for [session notes](#notes-what-a-summary-that-is-ready-costs) or extraction.",
        f"[All windows, models and figures]({LINK}/replay.md).",
        "",
        *_table(["policy", *SHOWN_CELLS], rows),
    ]
    return _part("Replay: what a session costs, and what stays in view", "replay", lines, plots=["replay"])


def _kept_for(cell: Result, policy: str) -> str:
    row = next(row for row in cell["policies"] if row["policy"] == policy)
    return f"{row['of_append_only']:.2f} / {row['usable_pairs']:.0f}"


def _recall() -> str:
    result, speed = _read("recall"), _read("recall.speed")
    rankers = ("nacre", "nacre_embed", *result["peers"])
    scores = {name: halves["score"] for name, halves in result["sets"].items()}
    rows = [
        [f"`{name}`, {found['questions']}", *(_at_ten(found["rankers"].get(ranker)) for ranker in rankers)]
        for name, found in scores.items()
    ]
    foreign = result["nothing_relevant"]["locomo_turns"]["score"]["another_store"]["attached"]
    many = speed["nacre"]["10000"]["selection"]
    lines = [
        "Recall at ten, on the half of each public set that the weights were not chosen on; the first column",
        f"says how many questions. [All of it]({LINK}/recall.md).",
        "",
        *_table(["set", *rankers], rows),
        "",
        f"Among 10,000 memories a choice takes {many['p50_ms']:.1f} ms (p95",
        f"{many['p95_ms']:.1f}). To questions",
        f"that were put to another store altogether something is attached in {foreign['nacre']:.0%} of cases",
        f"(MiniLM with a cut: {foreign['minilm_cosine']:.0%}).",
    ]
    plots = ["recall_locomo_turns", "recall_beam_messages", "recall.speed"]
    return _part("Recall: the right memories, without a model", "recall recall.speed", lines, plots=plots)


def _at_ten(found: Result | None) -> str:
    return f"{found['recall@10']:.2f}" if found else "-"


def _survived() -> dict[tuple[str, str], list[int]]:
    """By policy and what was counted from: rules kept, rules, states kept, states, invented, too large."""
    counted = ("rules_kept", "rules", "states_kept", "states", "invented", "too_large")
    sums: dict[tuple[str, str], list[int]] = {}
    for cell in _read("compaction.survival")["cells"]:
        so_far = sums.setdefault((cell["policy"], cell["what"]), [0] * len(counted))
        sums[cell["policy"], cell["what"]] = [a + cell[b] for a, b in zip(so_far, counted, strict=True)]
    return sums


def _survival() -> str:
    rows = [
        [policy, f"{kept} of {rules} ({kept / rules:.0%})", f"{done} of {states}", str(false), str(large)]
        for (policy, what), (kept, rules, done, states, false, large) in _survived().items()
        if what == "windows said"
    ]
    quoted = _read("compaction.inventions")
    wrong = sum(row["not_in_the_log"] for row in quoted["rows"])
    made = quoted["made_set"]
    lines = [
        "What is still in the next request after as much was said as fills the",
        "window several times, all windows",
        f"together; everybody got the same bad summary. [By window]({LINK}/compaction_survival.md).",
        "",
        *_table(
            ["policy", "a person's rules", "task states", "invented quotations", "over the window"], rows
        ),
        "",
        f"Of {sum(row['quotations'] for row in quoted['rows'])} quotations in {quoted['summaries']} recorded",
        f"summaries of another program {wrong} were not in the log. nacre's check, on a made set: of",
        f"{made['inventions']:,} inventions {made['false_keeps']} kept, of {made['real']:,} real ones",
        f"{made['false_drops']} dropped; its rules were written with that set in view.",
    ]
    names, plots = "compaction.survival compaction.inventions", ["compaction.survival"]
    return _part("Compaction: what survives, and what is invented", names, lines, plots=plots)


def _compacting() -> str:
    faults, speed, waits = (_read(f"compaction.{name}") for name in ("faults", "speed", "blocking"))
    slowest = max(shape["p99_ms"] for shape in speed["shapes"].values())
    waited = {
        ahead: sum(run["waited"] for run in waits["runs"] if run["made_ahead"] is ahead)
        for ahead in (True, False)
    }
    lines = [
        f"{faults['sessions']:,} sessions with failing, lying and hanging providers,",
        f"{faults['met']['compactions']:,}",
        f"compactions, {faults['processes']['killed']} processes killed:",
        f"{len(faults['failed'])} could not go on. By",
        f"rule a compaction of 170,000 tokens takes {slowest:.0f} ms at most (p99,",
        "slowest shape). Turns that",
        f"waited for a summary: {waited[False]} without one made ahead, {waited[True]} with.",
    ]
    names = "compaction.faults compaction.speed compaction.blocking"
    return _part("Compaction: failures, speed, waiting", names, lines)


def _extraction() -> str:
    result = _read("extract")
    held, judged = result["statements"], result["recall"]["judge"]
    lines = [
        f"Without a model, a linear classifier: of {held['statements']:,} statements of",
        f"{held['conversations']} conversations, each classified without its own,",
        f"{held['recall']:.0%} of those worth keeping are kept, {held['precision']:.0%} of what is",
        f"kept is worth it, {held['right_kind']:.0%} of that has the right kind. Of",
        f"{judged['bearing']} messages of LongMemEval that bear an answer",
        f"{judged['recall']:.0%} are kept. One turn takes",
        f"{result['turn']['p99_us'] / 1000:.1f} ms (p99). With a model it was not",
        "measured: no key was at hand.",
    ]
    return _part("Extraction", "extract", lines)


def _dream() -> str:
    result = _read("dream")
    most = result["rows"][-1]
    scores = result["folders"]["scores"]
    better = sum(after > before for before, after, _ in scores)
    lines = [
        f"By rule: {most['memories']:,} memories take {most['cpu_seconds']:.0f} s of a processor;",
        f"{most['merged']:.0%} of those that say the same are merged,",
        f"{most['wrongly_merged']} that contradict",
        f"each other. On {len(scores)} folders that people and agents had written",
        f"the audit's score rose in {better}",
        f"and fell in {sum(after < before for before, after, _ in scores)}: most of",
        "what is wrong there needs judgement.",
    ]
    return _part("Dream", "dream", lines)


def _staleness() -> str:
    places = _read("staleness")["repositories"]
    made, large = places["made_up"]["all"], places["large"]["all"]
    lines = [
        "Memories that name files, functions, flags and commands, asked for some commits later. Of",
        f"{made['stale']} that name something that is gone {made['stale_served']} is still told as if",
        f"it were true; without the check all are. There were {made['false_alarms']} false alarms among",
        f"{made['memories']:,}. In a tree too large to be read in time {large['stale_served']} of",
        f"{large['stale']} are told, each with the word that it was not checked.",
    ]
    return _part("Staleness: memories that no longer hold", "staleness", lines, plots=["staleness"])


def _writers() -> str:
    result = _read("writers")
    dream = result["dream"]
    chats = result["extraction"]
    by_hand = result["statements"].values()
    lines = [
        f"Models that lie in small ways. In a dream, {dream['lies_landed']} of {dream['lies']} lies land (a",
        "flipped, dropped, invented, emptied or injected text), and",
        f"{dream['honest_landed']} of {dream['honest']} honest edits do. In an extraction from labelled",
        f"everyday chats, {chats['true_landed_at_once']} of {chats['facts']} true facts land at once and",
        f"{chats['true_landed']} at the second try, in the person's words;",
        f"{chats['wrong_refused']} of {chats['wrong_tried']} wrong ones are refused. Of lies written by",
        f"hand, {sum(one['lies_refused'] for one in by_hand)} of {sum(one['statements'] for one in by_hand)}",
        "are refused; of the second and third set 82 % and 87 % were, before the rules had seen them.",
    ]
    return _part("Models that lie", "writers", lines)


def _poisoning() -> str:
    result = _read("poisoning")
    ours, without, plain = result["defended"], result["undefended"], result["sessions"]
    pairs = result["pairs"]
    which = ", ".join(name.removeprefix("beyond ") for name in ours["which"])
    lines = [
        f"A model that obeys, {ours['attacks']} attacks: {ours['reached']} reach a",
        "later session, without the defence",
        f"{without['reached']}. Of {ours['beyond']} that you let a command write",
        f"{ours['beyond_reached']} does ({which}). Of {ours['honest']} honest memories",
        f"{ours['honest_recalled']} are recalled, without the defence {without['honest_recalled']}.",
        f"In {plain['sessions']} ordinary coding sessions with {plain['saves']} saves, {plain['unverified']}",
        f"wait for a confirmation, {plain['learnt_from_tools']} of them facts that only a tool said.",
        f"Of {sum(pairs['changed'].values())} statements with a changed quantity, scope, order or value, or",
        f"quoted from others, {sum(map(len, pairs['changed_attached'].values()))} are attached;",
        f"of {pairs['honest']} casual ones in a model's words {pairs['honest_unverified']} wait for a",
        "confirmation.",
        "More: [what nacre defends against](threat-model.md).",
    ]
    return _part("Poisoning", "poisoning", lines)


def _secrets() -> str:
    result = _read("secrets")
    sets = result["secrets"]
    held = [one for name, one in sets.items() if name.startswith("held out")]
    missed = ", ".join(f"{one['missed_at_first']} of {one['count']}" for one in held)
    ordinary = result["ordinary"]
    lines = [
        f"{sum(one['count'] for one in sets.values())} invented credentials, passwords in sentences of seven",
        f"languages among them: {sum(one['saved'] for one in sets.values())} are saved.",
        f"{len(held)} of the sets were",
        f"written after the rules, one after the other; at the first try {missed} were missed, so expect",
        "about one in fifteen of yours to be.",
        f"{ordinary['false_alarms']} of {ordinary['count']:,} ordinary memories",
        "were refused; these were in view when the rules were written.",
        f"A scan of 10 KB that is all about passwords takes {result['milliseconds_per_10_kb']} ms.",
    ]
    return _part("Secrets", "secrets", lines)


def _purge() -> str:
    result = _read("purge")
    spread = f"{result['files_with_a_value_before']:.0f}"
    lines = [
        f"{result['memories']} memories with values of fourteen kinds, each in {spread} files",
        "of the home after sessions that used it.",
        f"{result['said_to_be_gone']} of {result['purged']} purges say that nothing is left;",
        f"a search by other means finds {result['files_left']} files with a value.",
        f"{result['unrelated_memories_changed']} other memories changed.",
        f"Of {result['killed']} purges that were killed on the way,",
        f"{result['killed_not_completed']} were not completed by the same command.",
    ]
    return _part("Purge: what is left of a memory", "purge", lines)


def _agents() -> str:
    mail, idle = _read("mail"), _read("agents_idle")
    killed = mail["killed"]
    lines = [
        f"{killed['acknowledged']:,} letters among processes that were killed {killed['kills']} times:",
        f"{killed['lost']} lost, {killed['twice']} twice, {killed['out_of_order']}",
        "out of order. A letter costs",
        f"{mail['on_disk']['letter_us'] / 1000:.2f} ms,",
        f"{mail['on_disk']['times_plain']:.2f} times a plain locked",
        f"append, and in a box of {mail['many']:,}",
        f"{mail['on_disk']['times_short']:.2f} times what it costs in one of",
        f"{mail['few']}. {idle['agents']} idle teammates take",
        f"{idle['teammates_share']:.3%} of a core, one with a",
        f"process of its own {idle['process_share']:.3%}.",
    ]
    return _part("Mail, idle agents", "mail agents_idle", lines)


def _forks() -> str:
    result = _read("forks")
    rows = [
        [
            run["model"],
            f"{run['parent_tokens']:,}",
            f"{run['least_share_read']:.1%}",
            f"${run['forks_usd']:.3f}",
            f"${run['uncached_usd']:.3f}",
            f"{run['times_cheaper']:.1f}",
        ]
        for run in result["runs"]
    ]
    head = (
        "model",
        "tokens",
        "of the parent's request read, at least",
        "five forks",
        "without a cache",
        "times",
    )
    lines = [
        f"{result['forks']} forks of one reply, each with a question of its own and an answer of",
        "some 130 tokens, over HTTP",
        "against the simulator: what they cost together, beside the same requests if nothing were cached.",
        "",
        *_table(head, rows),
    ]
    return _part("Forks: what a look at the whole conversation costs", "forks", lines, plots=["forks"])


def _beside(run: Result) -> float:
    """What was paid beside a conversation."""
    return float(run["notes_usd"] + run["summaries_usd"] + run["extraction_usd"])


def _notes() -> str:
    result = _read("notes")
    rows = [
        [
            f"{run['window'] // 1000}K, {run['way']}",
            f"${run['conversation_usd']:.2f}",
            f"${_beside(run):.2f}",
            f"{_beside(run) / run['conversation_usd']:.0%}",
            f"{run['compactions_from_notes']} of {run['compactions']}",
            f"{run['waited_seconds']:.0f} s",
        ]
        for run in result["runs"]
    ]
    head = (
        "window, way",
        "conversation",
        "beside it",
        "share",
        "compactions that found notes",
        "waited",
    )
    lines = [
        f"{result['turns']} turns of a made-up agent on claude-opus-5-5, three calls of",
        f"{result['growth_tokens']:,} tokens in each, billed by the cache rules; a summary takes",
        f"{result['summary_seconds']:.0f} s, an update of the notes {result['notes_seconds']:.0f}.",
        "“Default” keeps notes; “every 5,000 tokens” has `notes.growthShare` at 0. Extraction, which is on",
        "by default too, stands in a row of its own: it asks once after every turn and finds nothing, the",
        "least it can cost.",
        "",
        *_table(head, rows),
    ]
    return _part("Notes: what a summary that is ready costs", "notes", lines)


def _speed() -> str:
    start, layers, fold = _read("startup"), _read("layers"), _read("fold")
    prepare, saving = _read("prepare"), _read("memory")["peers"]
    most = max(layers["records"], key=int)
    saves = ", ".join(f"{one['package']} {one['at']['10000']['cpu_ms']:g}" for one in saving.values())
    lines = [
        f"`nacre --version` takes {start['median_cpu_ms']['nacre --version']:.0f} ms of the processor",
        f"(a bare Python {start['median_cpu_ms']['python -c pass']:.0f}), `nacre --help`",
        f"{start['median_cpu_ms']['nacre --help']:.0f}, `nacre -p hello` without a model",
        f"{start['median_cpu_ms']['nacre -p hello']:.0f}, at a load of {start['machine']['load']:g}. A round",
        f"of the loop costs {layers['records'][most]['p50_us'] / 1000:.2f} ms of",
        f"nacre's own at {int(most):,} records.",
        f"A record is folded in {fold['fold']['100000']['p50_us']:.0f} µs after",
        "100,000 others. A request reaches the",
        f"wire in {prepare['anthropic']['nacre_over_sdk_post']:.2f} times what",
        "Anthropic's SDK alone takes, in",
        f"{prepare['openai']['nacre_over_sdk_post']:.2f} times OpenAI's. One save",
        "among 10,000 memories, ms of the",
        f"processor: {saves}.",
    ]
    names = "startup layers fold prepare memory"
    return _part("Start-up and speed", names, lines, plots=["layers", "fold", "memory"])


def _not_better() -> str:
    """Two lists that nobody has to remember to write: who beats us where, and which aims were missed."""
    beaten = [line for cell in _read("replay")["cells"] for line in _beaten(cell)]
    behind = [line for name, halves in _read("recall")["sets"].items() for line in _behind(name, halves)]
    missed = [
        f"- {path.stem}: {bar['what']}: {bar['measured']:g}, aim: {_aim(bar)}"
        for path in sorted(RESULTS.glob("*.json"))
        for bar in _read(path.stem).get("bars", [])
        if not bar["met"]
    ]
    return "\n\n".join(
        [
            "## Where nacre is not better",
            _filled(
                [
                    "Replay, by window and model: other ways beside nacre's defaults, as cost /",
                    "percent of pairs in view;",
                    "and those that keep more of the exact texts that edits replace.",
                ]
            ),
            "\n".join(beaten),
            "Rankers that find as much at ten as nacre's words alone, or more:",
            "\n".join(behind),
            "Aims that were set before and not reached:",
            "\n".join(missed),
        ]
    )


def _beaten(cell: Result) -> list[str]:
    ours = next(row for row in cell["policies"] if row["policy"] == "nacre")
    others = [row for row in cell["policies"] if not row["policy"].startswith("nacre")]
    groups: dict[str, list[str]] = {}
    for row in others:
        is_cheaper = row["of_append_only"] <= ours["of_append_only"]
        keeps_more = row["usable_pairs"] + is_cheaper * ROUNDING > ours["usable_pairs"]
        if row["usable_edits"] > ours["usable_edits"]:
            groups.setdefault("more texts of edits", []).append(f"{row['policy']} {row['usable_edits']:.1f}")
        if is_cheaper or keeps_more:
            is_both = is_cheaper and keeps_more
            group = "better" if is_both else "cheaper, keeps less" if is_cheaper else "dearer, keeps more"
            groups.setdefault(group, []).append(f"{row['policy']} {_figures(row)}")
    told = [f"  - {group}: {'; '.join(rows)}" for group, rows in sorted(groups.items())]
    edits = f", texts of edits {ours['usable_edits']:.1f}"
    return [f"- {cell['title']}, nacre {_figures(ours)}{edits}", *told] if told else []


def _figures(row: Result) -> str:
    return f"{row['of_append_only']:.2f} / {row['usable_pairs']:.1f}"


def _behind(name: str, halves: Result) -> list[str]:
    rankers = halves["score"]["rankers"]
    ours = rankers["nacre"]["recall@10"]
    ahead = [
        f"{ranker} {found['recall@10']:.3f}"
        for ranker, found in rankers.items()
        if not ranker.startswith("nacre") and found["recall@10"] >= ours
    ]
    return [f"- `{name}`, nacre {ours:.3f}: {', '.join(ahead)}"] if ahead else []


def _aim(bar: Result) -> str:
    return f"at least {bar['at_least']:g}" if "at_least" in bar else f"at most {bar['at_most']:g}"


PARTS: tuple[Callable[[], str], ...] = (
    _replay,
    _recall,
    _staleness,
    _survival,
    _compacting,
    _notes,
    _forks,
    _extraction,
    _dream,
    _writers,
    _poisoning,
    _secrets,
    _purge,
    _agents,
    _speed,
)


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8", newline="\n")
