"""Writes docs/why/server-load.md from bench/results; `make docs` runs it, and a test compares the two."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from make_measured import ROOT, Result, part, read, table

PAGE = ROOT / "docs" / "why" / "server-load.md"
HEAD = """\
# A server under load

`make docs` generates this page from the files in [bench/results](../../bench/results), and a test compares
them. `python -m bench.run server.scale server.tenants server.kills server.peers` measures again. PostgreSQL,
servers, workers and the program that asks shared one machine of two cores with other work, so that times are
longer than on machines of their own, and slow ends mostly show the scheduler; ratios are of one run. [Run a
server](../how-to/run-a-server.md) says how.
"""
MILLION = 1_000_000


def text() -> str:
    """Return the page for the current results."""
    return "\n\n".join([HEAD.rstrip(), _goals(), _scale(), _tenants(), _kills(), _peers(), _paper()]) + "\n"


def _goals() -> str:
    rows = [
        (one["what"], f"{one['measured']:,.10g}", _aim(one), "yes" if one["met"] else "**no**")
        for name in ("scale", "tenants", "kills")
        for one in read(f"server.{name}")["bars"]
    ]
    lines = table(("measured", "result", "aim", "met"), rows)
    return part("Aims", "server.scale server.tenants server.kills", lines)


def _aim(one: Result) -> str:
    return f"at most {one['at_most']:,.10g}" if "at_most" in one else f"at least {one['at_least']:,.10g}"


def _ms(found: Result) -> tuple[str, str]:
    return f"{found['p50_us'] / 1000:,.1f}", f"{found['p99_us'] / 1000:,.1f}"


def _scale() -> str:
    found = read("server.scale")
    recall, memory, throughput = found["recall"], found["memory"], found["throughput"]
    names = {
        "in_process": "in the process, on files",
        "warm": "over HTTP, index open",
        "cold": "index closed, copy on the disk",
        "first_on_machine": "first use on this machine: the copy is made from the rows",
    }
    rows = [(label, *_ms(recall[name]), f"{recall[name]['samples']:,}") for name, label in names.items()]
    lines = [
        f"{found['tenants']:,} tenants with {found['memories']} memories each are in the database. A "
        "recall asks for",
        "the key, then for the newest commit of the space, then ranks:",
        "",
        *table(("recall", "ms, half", "ms, 99 of 100", "times"), rows),
        "",
        f"It takes {recall['cpu_ms']:g} ms of the server's processor. With `--index-memory "
        f"{memory['limit_mb']}` the open",
        f"indexes take {memory['index_mb']:g} MB by the server's estimate, and the process "
        f"{memory['resident_mb']} MB of",
        f"which it takes {memory['resident_mb_at_start']} MB with one tenant.",
        "",
        f"Two processes answer {throughput['two_per_second']:g} recalls a second, one "
        f"{throughput['one_per_second']:g}:",
        f"{throughput['ratio']:g} times as many. Both, PostgreSQL and {throughput['clients']} clients "
        "share two cores, so",
        "that a second process finds no free core; it can only show what cores of their own would give. "
        "A recall takes",
        f"{throughput['one_cpu_ms']:g} ms of a server's processor with one process and "
        f"{throughput['two_cpu_ms']:g} ms with two: they do not slow each other, so that two cores for "
        "servers "
        f"alone would answer about {min(2.0, throughput['ratio_by_processor']):g} times as many as "
        "one. Servers share nothing but the database, where a recall is two lookups by primary key.",
    ]
    return part("Many tenants", "server.scale", lines, plots=["server.scale"])


def _tenants() -> str:
    found = read("server.tenants")
    operations = ", ".join(f"{count:,} {name}" for name, count in found["operations"].items())
    statuses = ", ".join(f"{count:,} with {name}" for name, count in found["statuses"].items())
    lines = [
        f"{found['calls']:,} random calls with keys of {found['users']} users of {found['tenants']} "
        "tenants in",
        f"{found['seconds']:,} seconds, {found['bytes'] / 1e6:,.0f} MB of answers ({statuses}). "
        "Everything that a user saves",
        "has a mark; many calls ask for commits, files, sessions and spaces of others. Answers with a "
        "mark of another",
        f"user: **{found['foreign']}**. Errors of the server: {found['failed']}. The calls: {operations}.",
    ]
    return part("Nothing of another tenant", "server.tenants", lines)


def _kills() -> str:
    found = read("server.kills")
    saves, jobs, letters = found["saves"], found["jobs"], found["letters"]
    killed = ", ".join(f"{count} of a {name}" for name, count in sorted(saves["kills"].items()))
    lines = [
        f"- Saves: {saves['clients']} clients, {saves['acknowledged']:,} acknowledged saves through two "
        "servers, with kills"
        f" (`SIGKILL`) {killed}. Lost: **{saves['lost']}**. Histories with gaps, files unlike their "
        "last change, and"
        f" copies that `git fsck` refuses: **{saves['broken']}**.",
        f"- Jobs: {jobs['jobs']:,} extractions, {jobs['attempts']:,} attempts, {jobs['kills']} kills of "
        "two workers. With"
        f" their effect in the result once: **{jobs['once']:,}**.",
        f"- Letters: {letters['letters']:,} between processes of two hosts, {letters['kills']} kills of "
        "senders and receivers."
        f" Lost: **{letters['lost']}**, received twice: **{letters['twice']}**.",
    ]
    return part("Processes that are killed", "server.kills", lines)


def _peers() -> str:
    found = read("server.peers")
    rows = [
        (one["package"], *(f"{value}" for what in ("save", "search") for value in _both(one[what])))
        for one in found["stores"].values()
        if "skipped" not in one
    ]
    skipped = [f"{name}: {one['skipped']}." for name, one in found["stores"].items() if "skipped" in one]
    lines = [
        f"{found['saves']} saves, then {found['searches']} searches, in turn on one PostgreSQL, "
        "milliseconds, half of the",
        "times; the processor time is that of the program without PostgreSQL:",
        "",
        *table(("", "save", "processor", "search", "processor"), rows),
        "",
        "nacre is slower, because it does more: a save looks for secrets and for a memory on the same "
        "subject, keeps what",
        "was before as a commit, and writes history, files and index in one transaction; a search ranks "
        "by words, meaning",
        "and age. The others store a text with a vector. A stub gives them that vector at once; "
        "computing one takes some",
        "20 ms of a processor with a small model, which nacre does itself and which its searches here "
        "include.",
        *skipped,
    ]
    return part("Beside other stores", "server.peers", lines)


def _both(found: Result) -> tuple[str, str]:
    return _ms(found)[0], _ms(found["cpu"])[0] if "cpu" in found else "–"


def _paper() -> str:
    found = read("server.scale")
    memory, per_tenant, throughput = found["memory"], found["bytes_per_tenant"], found["throughput"]
    per_core = 1000 / throughput["one_cpu_ms"]
    copies = memory["copy_bytes_per_tenant"] * MILLION / 1e9
    index_mb = (64 + 16 * found["memories"]) / 1024
    rows = [
        ("rows", f"{found['memories'] * MILLION / 1e6:,.0f} million memories, as many changes or more"),
        (
            "tables with indexes",
            f"{per_tenant['total'] / 1000:,.0f} KB a user: {per_tenant['total'] * MILLION / 1e9:,.0f} GB",
        ),
        ("recalls", f"{per_core:,.0f} a second for each core of a server"),
        (
            "index memory",
            f"{index_mb:.1f} MB an open user: {1000 * index_mb / 1024:,.1f} GB for 1,000 users at once",
        ),
        (
            "copies",
            f"{memory['copy_bytes_per_tenant'] / 1000:,.0f} KB a user: {copies:,.0f} GB if one server "
            "had all",
        ),
        ("connections", "16 at most for each process, in use for a few milliseconds of a request"),
    ]
    busy = MILLION * 0.05 * 20 / 3600 / 8 * 4
    lines = [
        f"What a million users with {found['memories']} memories each need, from the figures above; "
        "nothing of this size",
        "was run. Assumed: one in twenty is active on a day, with 20 messages each, and the busiest "
        "hour has four times",
        f"the average of eight hours: {busy:,.0f} recalls a second, and a tenth as many saves and jobs.",
        "",
        *table(("what", "estimate"), rows),
        "",
        f"- **Processors**: {busy:,.0f} recalls a second take {max(1, round(busy / per_core + 0.5))} "
        "cores of servers, with as many"
        " again for the first use of a copy and for saves. Servers are stateless: more of them are the "
        "answer.",
        "- **The first limit** is the disk of a server rather than its processor or PostgreSQL: each "
        "user who was active on"
        " it has a copy there. A proxy that sends a user to the same server keeps one copy of each; "
        "copies may be deleted"
        " while no server runs.",
        "- **PostgreSQL** answers two lookups by primary key for a recall, and some ten statements for "
        "a save. The next"
        " limit is the size of the tables: then `memory_changes` and `memory_commits` are partitioned "
        "by a hash of the"
        " tenant, which is in every row and every primary key's index by its space; read replicas do "
        "not serve recalls,"
        " because a recall must see the newest head. Beyond one machine, Citus can distribute the "
        "tables by `tenant`.",
        "- **Connections**: a pooler (PgBouncer) in the mode of transactions works for servers, because "
        "the tenant is set"
        " for each transaction; workers need sessions, because PgQueuer listens. Not tried.",
        f"- **Jobs**: two workers did {_jobs_per_second():.1f} extractions by rule a second here while they "
        "were killed every few seconds.",
    ]
    return part("On paper: a million users", "server.scale", lines)


def _jobs_per_second() -> float:
    jobs = read("server.kills")["jobs"]
    return float(jobs["jobs"] / jobs["seconds"])


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8", newline="\n")
