"""`nacre memory list`: list memories and those a conversation starts with (M16c)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import click

from nacre.cli.memory.open import json_option, read_only, run, scope_option
from nacre.cli.options import RunOptions
from nacre.cli.output import (
    cut_last,
    human_age,
    human_count,
    is_terminal,
    print_error,
    print_json,
    print_table,
    printable,
)
from nacre.errors import StoreError
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.memory.checks.load_report import FileReport
    from nacre.memory.files.scan import Scan
    from nacre.memory.format.entry import Entry
    from nacre.memory.memory import Memory
    from nacre.memory.recall.usage import MemoryUsage

INDEX = "MEMORY.md"
SHOWN = 10
"""Omitted memories that are named; `--json` has all."""


@click.command("list", short_help="List the memories, newest first.")
@click.option("--usage", "with_usage", is_flag=True, help="Show how often each was used.")
@scope_option
@json_option
@click.pass_obj
def list_(options: RunOptions, /, *, scope: str, with_usage: bool, as_json: bool) -> None:
    """List memories, newest first, and what of the index a conversation gets.

    With --usage: how often recall considered and attached each, how often a reply cited it and the user
    contradicted it afterwards, judged by words, and its tokens.
    """
    from nacre.memory.checks.load_report import load_report

    opened = run(read_only(options, scope, picks_up=True))
    found = run(opened.scan())
    report = {one.file: one for one in load_report(opened.location.directory, found)}
    doubted = _doubted(opened)
    usage = _usage_of(opened, found) if with_usage else None
    if as_json:
        print_json([
            {
                **entry_json(each),
                **_state(report.get(each.file)),
                "unconfirmed": each.file in doubted,
                **({} if usage is None else {"usage": _usage_json(usage[each.file])}),
            }
            for each in found.entries
        ])  # fmt: skip
    elif usage and found.entries:
        _print_usage(found, usage)
    elif report:
        _print_list(found, opened, report, doubted)
    else:
        print("There are no memories yet. Save one with `nacre memory save TEXT`.")


def _doubted(opened: Memory) -> Collection[str]:
    """Return the unconfirmed files; an unreadable history must not hide the memories."""
    from nacre.memory.files.confirm import unconfirmed_files

    try:
        return unconfirmed_files(opened.location).keys()
    except StoreError as error:
        print_error(f"unconfirmed memories cannot be listed: {error}")
        return ()


def _usage_of(opened: Memory, found: Scan) -> dict[str, MemoryUsage]:
    """Return the usage of each memory; one without a record was not used."""
    from nacre.memory.recall.usage import MemoryUsage, read_usage

    files = [each.file for each in found.entries]
    known = read_usage(opened.location, files)
    return {file: known.get(file) or MemoryUsage(file=file) for file in files}


def _usage_json(usage: MemoryUsage) -> JsonObject:
    return {
        "offered": usage.offered,
        "attached": usage.attached,
        "cited": usage.cited,
        "contradicted": usage.contradicted,
        "tokens": usage.tokens,
        "last": usage.last.isoformat() if usage.last else None,
    }


def _print_usage(found: Scan, usage: dict[str, MemoryUsage]) -> None:
    from nacre.clock import SYSTEM_CLOCK

    now = SYSTEM_CLOCK.now()
    header = ["file", "offered", "attached", "cited", "contradicted", "tokens", "last", "description"]
    rows = []
    for each in found.entries:
        its = usage[each.file]
        counts = (its.offered, its.attached, its.cited, its.contradicted)
        numbers = [f"{count:,}" if count else "-" for count in counts]
        tokens = human_count(its.tokens) if its.tokens else "-"
        last = human_age(its.last, now) if its.last else "-"
        rows.append([each.file, *numbers, tokens, last, each.description or "-"])
    if is_terminal():
        cut_last(header, rows)
    print_table(rows, header=header, right=(1, 2, 3, 4, 5))


def entry_json(entry: Entry) -> JsonObject:
    """Return an entry in its stable JSON form."""
    when = entry.changed
    return {
        "file": entry.file,
        "name": entry.title,
        "description": entry.description,
        "type": entry.kind,
        "origin": entry.origin,
        "modified": when.isoformat() if when else None,
        "bytes": entry.bytes,
        "indexed": entry.indexed,
        "pinned": entry.pinned,
    }


def _state(reported: FileReport | None) -> JsonObject:
    return {"state": reported.state, "why": reported.why} if reported else {"state": "unlisted", "why": ""}


def _print_list(found: Scan, opened: Memory, report: dict[str, FileReport], doubted: Collection[str]) -> None:
    from nacre.clock import SYSTEM_CLOCK

    now = SYSTEM_CLOCK.now()
    header = ["file", "type", "changed", "size", "index", "description"]
    rows = [
        [
            each.file,
            each.kind or "-",
            human_age(when, now) if (when := each.changed) else "-",
            human_count(each.bytes),
            "cut" if report[each.file].state == "cut" else "yes" if each.indexed else "no",
            _described(each, is_doubted=each.file in doubted),
        ]
        for each in found.entries
    ]
    if is_terminal():
        cut_last(header, rows)
    print_table(rows, header=header if rows else (), right=(3,))
    index = run(opened.index())
    left = sum(not each.indexed for each in found.entries)
    unlisted = f", {left:,} of the memories not listed" if left else ""
    if rows:
        print()
    print(f"{INDEX}: {index.lines:,} lines, {index.bytes:,} bytes, loaded {_how(index.cut)}{unlisted}")
    _print_problems(list(report.values()))


def _described(entry: Entry, *, is_doubted: bool) -> str:
    """Return the description with a mark if the memory is unconfirmed."""
    marks = ("untrusted" * (entry.origin == "untrusted"), "unconfirmed" * is_doubted)
    return " ".join([*(f"({mark})" for mark in marks if mark), entry.description or "-"])


def _print_problems(report: list[FileReport]) -> None:
    """Print what a conversation should get but does not."""
    cut = [one.file for one in report if one.state == "cut" and one.file != INDEX]
    if cut:
        more = f" and {len(cut) - SHOWN:,} more" if len(cut) > SHOWN else ""
        print(printable(f"cut off with the end of the index: {', '.join(cut[:SHOWN])}{more}"))
    for one in report:
        if one.state == "left out":
            print(printable(f"left out: {one.file} {one.why}"))


def _how(cut: str) -> str:
    return f"only in part: too many {cut}; `nacre memory lint` says more" if cut else "whole"
