"""Writes docs/why/measured.md from bench/results; `make docs` runs it, and a test compares the two."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
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

`make docs` generates this page from the files in [bench/results](../../bench/results), and a test compares
them. `make bench` runs the [benchmarks](../../bench/README.md) again. Recorded sessions and public question
sets are not part of the repository; benchmarks that need them are skipped without them. No benchmark used a
language model: a stand-in, the same for all compared programs, replaces its output.
"""


def text() -> str:
    """Return the page for the current results."""
    return "\n\n".join([HEAD.rstrip(), _in_short(), *(one() for one in PARTS), _not_better()]) + "\n"


def read(name: str) -> Result:
    found: Result = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def part(title: str, names: str, lines: Iterable[str], *, plots: Iterable[str] = ()) -> str:
    """Return a section: heading, text, plots and the source of the figures."""
    pictures = [f"![{title}]({LINK}/{plot}.svg)" for plot in plots]
    sources = "; ".join(_source(name) for name in names.split())
    return "\n\n".join([f"## {title}", _filled(lines), *pictures, _filled([f"*{sources}*"])])


def _filled(lines: Iterable[str]) -> str:
    """Wrap prose; table rows, list items and empty lines stay on their own lines."""
    runs = groupby(lines, key=lambda line: line.startswith(("|", "- ")) or not line)
    return "\n".join(
        line
        for is_apart, run in runs
        for line in (
            run if is_apart else wrap(" ".join(run), WIDTH, break_long_words=False, break_on_hyphens=False)
        )
    )


def _source(name: str) -> str:
    result = read(name)
    on = result["machine"]
    machine = f"{on['cpu']}, {on['cores']} cores, Python {on['python']}"
    named = [one for one in result.get("peers", {}).values() if one != "written here"]
    against = ", ".join(dict.fromkeys(named)) if name in WITH_PEERS else ""
    peers = f"; compared with {against}" if against else ""
    return f"[{name}.json]({LINK}/{name}.json), {result['date'][:10]}, {machine}{peers}"


ROUNDING = 0.01
"""A cheaper policy is better if it keeps as much up to this; a more expensive one only if it keeps more."""
WITH_PEERS = frozenset({"replay", "recall", "compaction.survival"})
SHOWN_CELLS = {
    "200K, claude-opus-5-5": "200K, claude-opus-5-5",
    "100K, claude-opus-5-5, base at most 15K": "100K",
    "60K, claude-opus-5-5, base at most 15K": "60K",
    "200K, claude-sonnet-4-6": "200K, claude-sonnet-4-6",
    "200K, gpt-6.1-sol": "200K, gpt-6.1-sol",
}
"""Columns of the replay table by cell of the result."""
SHOWN_POLICIES = (
    "none",
    "truncate",
    "claude-code",
    "nacre",
    "nacre-chat",
    "nacre-tools",
    "nacre-chat, no small model",
    "nacre-chat, no refreshes",
)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    columns = list(head)
    return [f"| {' | '.join(row)} |" for row in [columns, ["---"] * len(columns), *map(list, rows)]]


def _in_short() -> str:
    """Return the main results, including the worst one."""
    poison, notes = read("poisoning"), read("notes")["runs"]
    dear = max(
        (run["notes_usd"] + run["extraction_usd"]) / run["conversation_usd"]
        for run in notes
        if run["way"] == "default"
    )
    planted = f"{poison['defended']['reached']} of {poison['defended']['attacks']} attacks"
    said = (
        _money(),
        _finding(),
        _rules(),
        f"**Planted memories.** {planted} reach a later session; without the defence "
        f"{poison['undefended']['reached']} do.",
        f"**What is expensive.** Session notes and extraction add up to {dear:.0%} to the bill. [More cases "
        "where nacre is not better](#where-nacre-is-not-better).",
    )
    items = [
        wrap(one, WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False) for one in said
    ]
    return "\n".join(["## In short", "", *(line for item in items for line in item)])


def _money() -> str:
    replay = read("replay")
    cell = next(cell for cell in replay["cells"] if cell["title"] == f"recorded, {next(iter(SHOWN_CELLS))}")
    rows = {row["policy"]: row for row in cell["policies"]}
    peers = [rows[name] for name in replay["peers"]]
    ours, tools = rows["nacre-chat"], rows["nacre-tools"]
    best = min(peers, key=lambda row: row["of_append_only"])
    return (
        f"**Cost.** {replay['sessions']['recorded']} recorded sessions cost {ours['of_append_only']:.2f} of "
        f"what sending everything costs, {tools['of_append_only']:.2f} with the results of nacre's own "
        f"tools, notes, memories and re-fetches included, and {ours['usable_pairs']:.0f} % of the pairs of "
        f"names that later steps used were in view. The cheapest of {len(peers)} policies of other libraries "
        f"({best['policy']}), without notes or memories, reaches {best['of_append_only']:.2f} and "
        f"{best['usable_pairs']:.0f} %."
    )


def _finding() -> str:
    result = read("recall")
    rankers = result["sets"]["locomo_turns"]["score"]["rankers"]
    at_ten = {name: rankers[name]["recall@10"] for name in ("nacre", *result["peers"]) if name in rankers}
    best = max((name for name in at_ten if name != "nacre"), key=lambda name: at_ten[name])
    return (
        f"**Recall** without a model. {at_ten['nacre']:.0%} of LoCoMo's evidence is among the first ten "
        f"results; the best other ranker ({best}) finds {at_ten[best]:.0%}, mem0 {at_ten['mem0']:.0%}."
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
        f"**Your rules after compactions.** {kept['nacre, by rule']:.0%} are still in the request word for "
        f"word. Of {len(others)} other policies {most[1]} keeps {most[0]:.0%}, at a higher cost than sending "
        f"everything; the others keep {others[0][0]:.0%} to {others[-2][0]:.0%}."
    )


def _replay() -> str:
    result = read("replay")
    cells = {cell["title"]: cell for cell in result["cells"]}
    chosen = [cells[f"recorded, {name}"] for name in SHOWN_CELLS]
    rows = [
        [policy, *(_kept_for(cell, policy) for cell in chosen)]
        for policy in (*SHOWN_POLICIES, *result["peers"])
    ]
    sessions = result["sessions"]["recorded"]
    lines = [
        f"{sessions} recorded sessions, replayed. Each cell: cost of the input side relative to `none`,",
        "which only appends / percent of the pairs of names that later steps used and that were in view",
        "(in requests that fitted the window). The input side is everything but the recorded replies,",
        "which cost the same under every policy; re-fetches of hidden text are included. `nacre` is the",
        "conversation alone, without background model calls. `nacre-chat` is a chat with default",
        "settings: notes, memories and summaries are charged as they are sent. `nacre-tools` is the same",
        "chat with the results of nacre's own tools, where a request that reads what a page does not",
        "show is added. `no refreshes`: for providers and thinking modes that allow none. In windows",
        "below 200K at most 15,000 tokens of the recorded system prompt and tools count, for every",
        "policy.",
        f"[All windows, models and figures]({LINK}/replay.md).",
        "",
        *table(["policy", *SHOWN_CELLS.values()], rows),
        *_earlier(result.get("measured_before", {}), [row[0] for row in rows]),
    ]
    return part("Replay: what a session costs, and what stays in view", "replay", lines, plots=["replay"])


def _earlier(dates: Mapping[str, str], shown: Sequence[str]) -> list[str]:
    """Return a line for the rows that were kept from an earlier run."""
    found: dict[str, list[str]] = {}
    for name in shown:
        if name in dates:
            found.setdefault(dates[name][:10], []).append(name)
    said = [f"{', '.join(names)} on {date}" for date, names in sorted(found.items())]
    return ["", f"Rows kept from an earlier run: {'; '.join(said)}."] if said else []


def _kept_for(cell: Result, policy: str) -> str:
    row = next(row for row in cell["policies"] if row["policy"] == policy)
    return f"{row['of_append_only']:.2f} / {row['usable_pairs']:.0f}"


def _recall() -> str:
    result, speed, selector = read("recall"), read("recall.speed"), read("recall.selector")
    scores = {name: halves["score"] for name, halves in result["sets"].items()}
    asked = ("nacre", "nacre_embed", *result["peers"])
    rankers = [name for name in asked if any(name in found["rankers"] for found in scores.values())]
    rows = [
        [f"`{name}`, {found['questions']}", *(_at_ten(found["rankers"].get(ranker)) for ranker in rankers)]
        for name, found in scores.items()
    ]
    foreign = result["nothing_relevant"]["locomo_turns"]["score"]["another_store"]["attached"]
    many = speed["nacre"]["10000"]["selection"]
    lines = [
        "Recall at ten, on the half of each public set that was not used for tuning; the first column has",
        f"the number of questions. [All figures]({LINK}/recall.md).",
        "",
        *table(["set", *rankers], rows),
        "",
        result.get("older", ""),
        "",
        f"A selection among 10,000 memories takes {many['p50_ms']:.1f} ms (p95",
        f"{many['p95_ms']:.1f}). Questions about another store get something attached in",
        f"{foreign['nacre']:.0%} of cases (MiniLM with a threshold: {foreign['minilm_cosine']:.0%}).",
        "",
        *_everyday(result["everyday"]),
        "",
        *_first_token(selector),
    ]
    plots = ["recall_locomo_turns", "recall_beam_messages", "recall.speed"]
    return part(
        "Recall: the right memories, without a model",
        "recall recall.speed recall.selector",
        lines,
        plots=plots,
    )


def _everyday(found: Result) -> list[str]:
    columns = ("attached", "ranked", "in_vain", "precision", "wrapped")
    rows = [
        [
            f"`{name}`",
            *(f"{one[column]:.0%}" for column in columns),
            f"{one['stale_first']} of {one['stale_pairs']}",
        ]
        for name, one in found.items()
        if isinstance(one, dict)
    ]
    head = ["everyday messages", "needed one attached", "among the first five", "attached in vain"]
    return [
        "Everyday messages of four invented people, whom nothing was tuned on:",
        "",
        *table([*head, "of attached: helpful", "direct, in other text", "outdated first"], rows),
    ]


def _first_token(found: Result) -> list[str]:
    times = found["first_token_ms"]
    off = times["off"]
    return [
        f"A small model that chooses memories delays the first token of a reply ({off['other']:.0f} ms)",
        f"by {times['in_time']['other'] - off['other']:.0f} ms if it answers in 200 ms, by",
        f"{times['late']['other'] - off['other']:.0f} ms if it is late, and by",
        f"{times['late']['certain'] - off['certain']:.0f} ms where the local pick is nearly certain.",
    ]


def _at_ten(found: Result | None) -> str:
    return f"{found['recall@10']:.2f}" if found else "-"


def _survived() -> dict[tuple[str, str], list[int]]:
    """Return by policy and kind of count: rules kept, rules, states kept, states, invented, too large."""
    counted = ("rules_kept", "rules", "states_kept", "states", "invented", "too_large")
    sums: dict[tuple[str, str], list[int]] = {}
    for cell in read("compaction.survival")["cells"]:
        so_far = sums.setdefault((cell["policy"], cell["what"]), [0] * len(counted))
        sums[cell["policy"], cell["what"]] = [a + cell[b] for a, b in zip(so_far, counted, strict=True)]
    return sums


def _survival() -> str:
    rows = [
        [policy, f"{kept} of {rules} ({kept / rules:.0%})", f"{done} of {states}", str(false), str(large)]
        for (policy, what), (kept, rules, done, states, false, large) in _survived().items()
        if what == "windows said"
    ]
    quoted = read("compaction.inventions")
    wrong = sum(row["not_in_the_log"] for row in quoted["rows"])
    made = quoted["made_set"]
    lines = [
        "What is still in the next request after enough conversation to fill the window several times, for",
        "all windows together. Every policy got the same bad summary.",
        f"[By window]({LINK}/compaction_survival.md).",
        "",
        *table(["policy", "a person's rules", "task states", "invented quotations", "over the window"], rows),
        "",
        f"Of {sum(row['quotations'] for row in quoted['rows'])} quotations in {quoted['summaries']} recorded",
        f"summaries of another program {wrong} were not in the log. nacre's check on a generated set kept",
        f"{made['false_keeps']} of {made['inventions']:,} invented quotations and removed",
        f"{made['false_drops']} of {made['real']:,} real ones; its rules were written with that set in view.",
    ]
    names, plots = "compaction.survival compaction.inventions", ["compaction.survival"]
    return part("Compaction: what survives, and what is invented", names, lines, plots=plots)


def _compacting() -> str:
    faults, speed, waits = (read(f"compaction.{name}") for name in ("faults", "speed", "blocking"))
    slowest = max(shape["p99_ms"] for shape in speed["shapes"].values())
    waited = {
        ahead: sum(run["waited"] for run in waits["runs"] if run["made_ahead"] is ahead)
        for ahead in (True, False)
    }
    lines = [
        f"{faults['sessions']:,} sessions with providers that fail, hang or return wrong output,",
        f"{faults['met']['compactions']:,} compactions, {faults['processes']['killed']} killed processes:",
        f"{len(faults['failed'])} sessions could not continue. A compaction by rule of 170,000 tokens takes",
        f"at most {slowest:.0f} ms (p99, slowest shape). Turns that waited for a summary: {waited[False]}",
        f"without one prepared ahead, {waited[True]} with one.",
    ]
    names = "compaction.faults compaction.speed compaction.blocking"
    return part("Compaction: failures, speed, waiting", names, lines)


def _extraction() -> str:
    result = read("extract")
    chats = read("extract.everyday")
    held, judged = result["statements"], result["recall"]["judge"]
    lines = [
        f"Without a model, by a linear classifier, on {held['statements']:,} statements of",
        f"{held['conversations']} conversations, each classified by a model trained without it:",
        f"{held['recall']:.0%} of the statements worth keeping are kept, {held['precision']:.0%} of what is",
        f"kept is worth it, and {held['right_kind']:.0%} of that has the right kind. Of",
        f"{judged['bearing']} messages of LongMemEval that contain an answer {judged['recall']:.0%} are",
        f"kept. Of {chats['facts']} facts in {chats['chats']} labelled everyday chats,",
        f"{chats['kept']} are kept, {chats['right_type']} of them with the right type; {chats['noise']} of",
        f"{chats['saved']} memories are noise, {chats['stale']} corrected values are still told. One",
        f"turn takes {result['turn']['p99_us'] / 1000:.1f} ms (p99). Extraction with a model was",
        "not measured, because no key was available.",
    ]
    return part("Extraction", "extract", lines)


def _dream() -> str:
    result = read("dream")
    most = result["rows"][-1]
    scores = result["folders"]["scores"]
    better = sum(after > before for before, after, _ in scores)
    lines = [
        f"By rule: {most['memories']:,} memories take {most['cpu_seconds']:.0f} s of processor time;",
        f"{most['merged']:.0%} of the duplicates are merged, and {most['wrongly_merged']} memories that",
        f"contradict each other. On {len(scores)} folders written by people and agents the audit's score",
        f"rose in {better} and fell in {sum(after < before for before, after, _ in scores)}: most of their",
        "problems need judgement.",
    ]
    return part("Dream", "dream", lines)


def _staleness() -> str:
    places = read("staleness")["repositories"]
    made, large = places["made_up"]["all"], places["large"]["all"]
    lines = [
        "Memories that name files, functions, flags and commands, recalled some commits later. Of",
        f"{made['stale']} that name something that is gone, {made['stale_served']} is still attached as if",
        f"it were true; without the check all are. There were {made['false_alarms']} false alarms among",
        f"{made['memories']:,} memories. In a tree too large to be read in time {large['stale_served']} of",
        f"{large['stale']} are attached, each marked as not checked.",
    ]
    return part("Staleness: memories that are no longer true", "staleness", lines, plots=["staleness"])


def _writers() -> str:
    result = read("writers")
    dream = result["dream"]
    chats = result["extraction"]
    by_hand = result["statements"].values()
    lines = [
        "Models that make small false changes. In a dream,",
        f"{dream['lies_landed']} of {dream['lies']} false changes are saved (negated, dropped, invented,",
        f"emptied or injected text), and {dream['honest_landed']} of {dream['honest']} honest edits are.",
        f"In an extraction from labelled everyday chats, {chats['true_landed_at_once']} of {chats['facts']}",
        f"true facts are saved at the first try and {chats['true_landed']} at the second, in the user's",
        f"words; {chats['wrong_refused']} of {chats['wrong_tried']} false ones are refused. Of false",
        f"statements written by hand, {sum(one['lies_refused'] for one in by_hand)} of",
        f"{sum(one['lies'] for one in by_hand)} are refused, of true ones with an invented half",
        f"{sum(one['halves_refused'] for one in by_hand)} of {sum(one['halves'] for one in by_hand)}. Before",
        "the rules had seen them: of the second and third set 82 % and 87 %, of the fourth 51 and 35 of 60,",
        "of the next 35 and 37 of 40; of the last two, lies and invented halves together, 111 of 120 and 78",
        "of 80.",
    ]
    return part("Models that write false memories", "writers", lines)


def _poisoning() -> str:
    result = read("poisoning")
    ours, without, plain = result["defended"], result["undefended"], result["sessions"]
    pairs = result["pairs"]
    which = ", ".join(name.removeprefix("beyond ") for name in ours["which"])
    lines = [
        f"{ours['attacks']} attacks on a model that obeys every instruction: {ours['reached']} reach a later",
        f"session, {without['reached']} without the defence. Of {ours['beyond']} in which an allowed",
        f"command writes to memory, {ours['beyond_reached']} does ({which}). Of {ours['honest']} honest",
        f"memories {ours['honest_recalled']} are recalled, {without['honest_recalled']} without the defence.",
        f"In {plain['sessions']} ordinary coding sessions with {plain['saves']} saves, {plain['unverified']}",
        f"wait for a confirmation, {plain['learnt_from_tools']} of them facts that only a tool returned.",
        f"Of {sum(pairs['changed'].values())} statements with a changed quantity, scope, order or value, or",
        f"quoted from others, {sum(map(len, pairs['changed_attached'].values()))} are attached; of",
        f"{pairs['honest']} casual statements in a model's words {pairs['honest_unverified']} wait for a",
        "confirmation.",
        "More: [what nacre defends against](threat-model.md).",
    ]
    return part("Poisoning", "poisoning", lines)


def _secrets() -> str:
    result = read("secrets")
    sets = result["secrets"]
    held = [one for name, one in sets.items() if name.startswith("held out")]
    missed = ", ".join(f"{one['missed_at_first']} of {one['count']}" for one in held)
    ordinary = result["ordinary"]
    lines = [
        f"Of {sum(one['count'] for one in sets.values())} invented credentials, including passwords in",
        f"sentences of seven languages, {sum(one['saved'] for one in sets.values())} are saved. {len(held)}",
        f"of the sets were written after the rules, one after the other; at the first try {missed} were",
        "missed, before the rules for what the set showed were written. The eighth to tenth were meant to be",
        "hard: informal labels, or the value before its label. The eleventh to sixteenth have nearly no",
        "labels at all. Those after it are phrased as people write to an agent, but the twenty-second, which",
        "says indirectly what opens what. From the twenty-fifth on values are spelled out, described, quoted",
        "or plain phrases; the first three of these were counted before there was a rule for such wordings,",
        "the last four are independent of each other. Expect one in fifteen of credentials with a usual",
        "wording to be saved, and one in six of those that are told so.",
        f"{ordinary['false_alarms']} of {ordinary['count']:,}",
        "ordinary memories were refused; these were known when the rules were written. Of",
        f"{ordinary['new_ones']:,} that were new to them, with the same words in other meanings,",
        f"{ordinary['false_alarms_at_first']} were refused. A scan of 10 KB of text about passwords takes",
        f"{result['milliseconds_per_10_kb']} ms.",
    ]
    return part("Secrets", "secrets", lines)


def _purge() -> str:
    result = read("purge")
    spread = f"{result['files_with_a_value_before']:.0f}"
    lines = [
        f"{result['memories']} memories with values of sixteen kinds, each in {spread} files of the home",
        f"after sessions that used it. {result['said_to_be_gone']} of {result['purged']} purges report that",
        f"nothing is left; an independent search finds {result['files_left']} files with a value.",
        f"{result['unrelated_memories_changed']} other memories changed. Of {result['killed']} purges that",
        f"were killed, {result['killed_not_completed']} were not completed by the same command.",
    ]
    return part("Purge: what is left of a memory", "purge", lines)


def _agents() -> str:
    mail, idle = read("mail"), read("agents_idle")
    killed = mail["killed"]
    lines = [
        f"{killed['acknowledged']:,} letters among processes that were killed {killed['kills']} times:",
        f"{killed['lost']} lost, {killed['twice']} delivered twice, {killed['out_of_order']} out of order.",
        f"A letter takes {mail['on_disk']['letter_us'] / 1000:.2f} ms,",
        f"{mail['on_disk']['times_plain']:.2f} times a plain locked append, and in an inbox of",
        f"{mail['many']:,} letters {mail['on_disk']['times_short']:.2f} times as long as in one of",
        f"{mail['few']}. {idle['agents']} idle teammates take {idle['teammates_share']:.3%} of a core, one",
        f"in its own process {idle['process_share']:.3%}.",
    ]
    return part("Mail, idle agents", "mail agents_idle", lines)


def _forks() -> str:
    result = read("forks")
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
        "share of the parent's request read, at least",
        "five forks",
        "without a cache",
        "ratio",
    )
    lines = [
        f"The total cost of {result['forks']} forks of one reply, each with its own question and an answer",
        "of about 130 tokens, over HTTP against the simulator, compared with the same requests without a",
        "cache.",
        "",
        *table(head, rows),
    ]
    return part("Forks: what a look at the whole conversation costs", "forks", lines, plots=["forks"])


def _beside(run: Result) -> float:
    """Return the cost of background work."""
    return float(run["notes_usd"] + run["summaries_usd"] + run["extraction_usd"])


def _notes() -> str:
    result = read("notes")
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
        "window, configuration",
        "conversation",
        "background work",
        "share",
        "compactions that used notes",
        "waited",
    )
    lines = [
        f"{result['turns']} turns of a simulated agent on claude-opus-5-5, three calls of",
        f"{result['growth_tokens']:,} tokens in each, billed by the cache rules; a summary takes",
        f"{result['summary_seconds']:.0f} s, an update of the notes {result['notes_seconds']:.0f}.",
        "After every fifth turn there is a pause. “Default” updates the notes and extracts memories by one",
        "request in such a pause, which the vendor's small model gets where that costs less; with “no small",
        "model” it is a fork of the session; “at once” does each as soon as it is due. An extraction finds",
        "nothing, which is its minimum cost.",
        "",
        *table(head, rows),
    ]
    return part("Notes: what a summary that is ready costs", "notes", lines)


def _gateway() -> str:
    result = read("gateway")
    day = result["day"]
    labels = {
        "direct": "directly",
        "gateway": "through the gateway",
        "keep_warm": "`--keep-warm`",
        "memory": "`--memory`",
        "shrink": "`--shrink`",
        "shrink_to_half": "`--shrink --shrink-window 100000`",
        "all": "`--keep-warm --memory --shrink`",
        "thinking_direct": "directly, adaptive thinking",
        "thinking_keep_warm": "`--keep-warm`, adaptive thinking",
        "thinking_all": "all three, adaptive thinking",
    }
    head = ("", "bill", "beside direct", "pauses cost", "refreshes", "memories", "MB not sent", "refused")
    rows = [
        (
            labels[name],
            f"${one['usd']:.2f}",
            f"{one['ratio']:.3f}",
            f"${one['pauses_usd']:.2f}" if not name.endswith("direct") else "",
            f"{one['refreshes']} for ${one['refreshes_usd']:.2f}" if one["refreshes"] else "",
            f"{one['recalled']}" if one["recalled"] else "",
            f"{one['shrunk_bytes'] / 1e6:.1f}" if one["shrunk_bytes"] else "",
            f"{one['refused']}",
        )
        for name, one in day["ways"].items()
    ]
    lines = [
        f"{result['streams']} concurrent streams through `nacre gateway`, beside a proxy of uvicorn and",
        f"httpx2 that reads nothing: the first event takes {result['first_byte_ratio']:.2f} times as long,",
        "and",
        f"{result['throughput_ratio']:.2f} times as many events pass per second, at a load of",
        f"{result['machine']['load']:g}. A day of {day['sessions']} recorded sessions with their pauses",
        f"({day['requests']} requests, {day['model']}):",
        "",
        *table(head, rows),
        "",
        f"Replies that differ from direct ones: {day['replies_that_differ']}. Requests that differ without",
        f"`--memory` and `--shrink`: {day['bodies_that_differ']}. Requests to OpenAI and with thinking",
        "of a fixed budget cannot be refreshed; they cost as much as directly. The replies are recorded",
        "ones: what a model would do with a memory, or without what was shrunk, is not in these figures.",
    ]
    return part("The gateway", "gateway", lines)


def _speed() -> str:
    start, layers, fold = read("startup"), read("layers"), read("fold")
    prepare, saving = read("prepare"), read("memory")["peers"]
    most = max(layers["records"], key=int)
    saves = ", ".join(f"{one['package']} {one['at']['10000']['cpu_ms']:g}" for one in saving.values())
    lines = [
        f"`nacre --version` takes {start['median_cpu_ms']['nacre --version']:.0f} ms of processor time",
        f"(an empty Python program {start['median_cpu_ms']['python -c pass']:.0f}), `nacre --help`",
        f"{start['median_cpu_ms']['nacre --help']:.0f}, `nacre -p hello` without a model",
        f"{start['median_cpu_ms']['nacre -p hello']:.0f}, at a load of {start['machine']['load']:g}. nacre's",
        f"own part of a round takes {layers['records'][most]['p50_us'] / 1000:.2f} ms at {int(most):,}",
        f"records. One record is folded in {fold['fold']['100000']['p50_us']:.0f} µs after 100,000 others.",
        f"Sending a request takes {prepare['anthropic']['nacre_over_sdk_post']:.2f} times as long as with",
        f"Anthropic's SDK alone, and {prepare['openai']['nacre_over_sdk_post']:.2f} times as long as with",
        f"OpenAI's. One save among 10,000 memories, in ms of processor time: {saves}.",
    ]
    names = "startup layers fold prepare memory"
    return part("Start-up and speed", names, lines, plots=["layers", "fold", "memory"])


def _not_better() -> str:
    """Return the policies and rankers that do better than nacre, and the bars that were missed."""
    beaten = [line for cell in read("replay")["cells"] for line in _beaten(cell)]
    behind = [line for name, halves in read("recall")["sets"].items() for line in _behind(name, halves)]
    missed = [
        f"- {path.stem}: {bar['what']}: {bar['measured']:g}, aim: {_aim(bar)}"
        for path in sorted(RESULTS.glob("*.json"))
        for bar in read(path.stem).get("bars", [])
        if not bar["met"]
    ]
    return "\n\n".join(
        [
            "## Where nacre is not better",
            _filled(
                [
                    "Replay, by window and model: policies that cost less or keep more than a chat with",
                    "default settings (`nacre-chat`), as cost / percent of pairs in view, and those that",
                    "keep more of the exact texts that edits replace.",
                ]
            ),
            "\n".join(beaten),
            "Rankers whose recall at ten is at least that of nacre without embeddings:",
            "\n".join(behind),
            "Aims that were set in advance and missed:",
            "\n".join(missed),
        ]
    )


def _beaten(cell: Result) -> list[str]:
    ours = next(row for row in cell["policies"] if row["policy"] == "nacre-chat")
    others = [row for row in cell["policies"] if not row["policy"].startswith("nacre")]
    groups: dict[str, list[str]] = {}
    for row in others:
        is_cheaper = row["of_append_only"] <= ours["of_append_only"]
        keeps_more = row["usable_pairs"] + is_cheaper * ROUNDING > ours["usable_pairs"]
        if row["usable_edits"] > ours["usable_edits"]:
            groups.setdefault("more texts of edits", []).append(f"{row['policy']} {row['usable_edits']:.1f}")
        if is_cheaper or keeps_more:
            is_both = is_cheaper and keeps_more
            group = (
                "better" if is_both else "cheaper, keeps less" if is_cheaper else "more expensive, keeps more"
            )
            groups.setdefault(group, []).append(f"{row['policy']} {_figures(row)}")
    lines = [f"    - {group}: {'; '.join(rows)}" for group, rows in sorted(groups.items())]
    edits = f", texts of edits {ours['usable_edits']:.1f}"
    return [f"- {cell['title']}, nacre-chat {_figures(ours)}{edits}", *lines] if lines else []


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
    _gateway,
    _speed,
)


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8", newline="\n")
