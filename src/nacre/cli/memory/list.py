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
from nacre.formatting import counted
from nacre.inspect.memory_json import entry_json
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.memory.checks.load_report import FileReport
    from nacre.memory.files.scan import Scan
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
    from nacre.memory.recall.usage import MemoryUsage, read_usage

    opened = run(read_only(options, scope, picks_up=True))
    found = run(opened.scan())
    report = {one.file: one for one in load_report(opened.location.directory, found)}
    doubted = _doubted(opened)
    usage = None
    if with_usage:  # a memory without a record was not used
        files = [each.file for each in found.entries]
        known = read_usage(opened.location, files)
        usage = {file: known.get(file) or MemoryUsage(file=file) for file in files}
    if as_json:
        rows: list[JsonObject] = []
        for each in found.entries:
            state = report.get(each.file)
            its = usage[each.file] if usage else None
            rows.append({
                **entry_json(each),
                "state": state.state if state else "unlisted",
                "why": state.why if state else "",
                "unconfirmed": each.file in doubted,
            })  # fmt: skip
            if its:
                rows[-1]["usage"] = {
                    "offered": its.offered,
                    "attached": its.attached,
                    "cited": its.cited,
                    "contradicted": its.contradicted,
                    "tokens": its.tokens,
                    "last": its.last.isoformat() if its.last else None,
                }
        print_json([*rows])
    elif usage and found.entries:
        _print_usage(found, usage)
    elif report:
        _print_list(found, opened, report, doubted)
    else:
        print("There are no memories yet. Save one with `nacre memory save TEXT`.")


def _doubted(opened: Memory) -> Collection[str]:
    """Return the unconfirmed files; an unreadable history must not hide the memories."""
    from nacre.memory.files.undo import unconfirmed_files

    try:
        return unconfirmed_files(opened.location).keys()
    except StoreError as error:
        print_error(f"unconfirmed edits cannot be listed: {error}")
        return ()


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
            f"({each.origin}) " * (not each.is_trusted)
            + "(unconfirmed edit) " * (each.file in doubted)
            + (each.description or "-"),
        ]
        for each in found.entries
    ]
    if is_terminal():
        cut_last(header, rows)
    print_table(rows, header=header if rows else (), right=(3,))
    index = run(opened.index())
    left = sum(not each.indexed for each in found.entries)
    part = f"only in part: too many {index.cut}; `nacre memory lint` says more"
    how = part if index.cut else "whole"
    unlisted = f", {left:,} of the memories not listed" if left else ""
    if rows:
        print()
    print(f"{INDEX}: {counted(index.lines, 'line')}, {counted(index.bytes, 'byte')}, loaded {how}{unlisted}")
    cut = [one.file for one in report.values() if one.state == "cut" and one.file != INDEX]
    if cut:
        more = f" and {len(cut) - SHOWN:,} more" if len(cut) > SHOWN else ""
        print(printable(f"cut off with the end of the index: {', '.join(cut[:SHOWN])}{more}"))
    for one in report.values():
        if one.state == "left out":
            print(printable(f"left out: {one.file} {one.why}"))
