"""`nacre --server URL memory` and `recall`: the same commands for the memory on a server (S10)."""

from __future__ import annotations

import os
import sys
from typing import Any
from urllib.parse import quote

import click

from nacre.cli.memory.open import json_option, run
from nacre.cli.memory.save import KINDS
from nacre.cli.options import RunOptions
from nacre.cli.output import print_error, print_json, print_table, printable
from nacre.inspect.memory_origin import SHORT_COMMIT

MAX_LOG = 500
scope_option = click.option(
    "--scope",
    "space",
    metavar="user|project:NAME|team:NAME|agent:NAME",
    default="user",
    show_default=True,
    help="Which of the server's memories.",
)


def ask(
    options: RunOptions,
    space: str,
    method: str,
    path: str,
    *,
    body: dict[str, object] | None = None,
    query: dict[str, str | int] | None = None,
) -> dict[str, Any]:
    """Send one request to the server of `--server`, and return the answer."""
    from nacre.app.open_memory import SERVER_KEY
    from nacre.app.remote_memory import MemoryClient
    from nacre.errors import ConfigError

    key = os.environ.get(SERVER_KEY, "")
    if not key:
        raise ConfigError(f"set {SERVER_KEY} to a key of the server; `nacre keys create` makes one there")
    client = MemoryClient(options.server or "", key, space=space)

    async def asked() -> dict[str, Any]:
        try:
            return await client.call(method, path, body=body, query=query)
        finally:
            await client.close()

    return run(asked())


@click.group(short_help="Use the memories on a server.")
def memory() -> None:
    """Save, find and change the memories on a server.

    NAME is a memory's file, its name, or words that match only that memory.
    """


@memory.command("list", short_help="List the memories, newest first.")
@scope_option
@json_option
@click.pass_obj
def list_(options: RunOptions, /, *, space: str, as_json: bool) -> None:
    """List memories, newest first."""
    rows: list[dict[str, Any]] = []
    query: dict[str, str | int] = {"limit": MAX_LOG}
    while True:
        page = ask(options, space, "GET", "/memories", query=query)
        rows += page["memories"]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    if as_json:
        print_json([*rows])
    elif rows:
        header = ["file", "type", "description"]
        print_table([_row(row, row["type"] or "-") for row in rows], header=header)
    else:
        print("There are no memories yet. Save one with `nacre --server URL memory save TEXT`.")


@memory.command(short_help="Find memories.")
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 100), default=5, show_default=True, help="Maximum number.")
@scope_option
@json_option
@click.pass_obj
def search(options: RunOptions, /, query: tuple[str, ...], *, limit: int, space: str, as_json: bool) -> int:
    """Find memories by words, unconfirmed ones included. Exit code 1 if there are none."""
    body: dict[str, object] = {"query": " ".join(query), "limit": limit}
    rows = ask(options, space, "POST", "/memories/search", body=body)["memories"]
    if as_json:
        print_json([*rows])
    elif rows:
        print_table(
            [_row(row, f"{row['score']:.2f}") for row in rows], header=["file", "score", "description"]
        )
    else:
        print_error("no memory matches")
    return 0 if rows else 1


@memory.command(short_help="Save a memory.")
@click.argument("text", metavar="[TEXT|-]")
@click.option("--type", "kind", type=click.Choice(KINDS), help="Kind of memory.")
@click.option("--name", default="", help="A short title (default: from the text).")
@click.option("--description", default="", help="One line to find it by (default: from the text).")
@click.option("--pin", is_flag=True, help="Always keep its line in the index.")
@scope_option
@json_option
@click.pass_obj
def save(options: RunOptions, /, text: str, *, space: str, as_json: bool, **given: str | bool | None) -> None:
    """Save TEXT, or stdin, as a memory; one on the same subject is updated."""
    body: dict[str, object] = {
        "text": sys.stdin.read() if text == "-" else text,
        "type": given["kind"],
        "name": given["name"],
        "description": given["description"],
        "pinned": True if given["pin"] else None,
        "reason": "saved by hand",
    }
    saved = ask(options, space, "POST", "/memories", body=body)
    before = saved["before"]
    if as_json:
        replaced = before["body"] if before else None
        print_json({
            "file": saved["file"], "commit": saved["commit"], "replaced": replaced,
            "feedback": saved["feedback"],
        })  # fmt: skip
        return
    did = "saved" if before is None else "updated" if saved["commit"] else "unchanged:"
    print(printable(f"{did} {saved['file']}"))
    if saved["feedback"]:
        print_error(saved["feedback"])


@memory.command(short_help="Print one memory.")
@click.argument("name")
@scope_option
@json_option
@click.pass_obj
def show(options: RunOptions, /, name: str, *, space: str, as_json: bool) -> None:
    """Print one memory."""
    found = ask(options, space, "POST", "/memories/find", body={"wanted": name})
    if as_json:
        print_json(found)
        return
    facts = [found["type"] or "untyped", found["origin"], found["modified"] or ""]
    print(printable(f"{found['file']} ({', '.join(filter(None, facts))})"))
    for line in ["", *found["body"].rstrip().splitlines()]:
        print(printable(line))


@memory.command(short_help="Remove a memory.")
@click.argument("name")
@scope_option
@json_option
@click.pass_obj
def forget(options: RunOptions, /, name: str, *, space: str, as_json: bool) -> None:
    """Remove a memory and its line in the index; the history keeps it."""
    file = ask(options, space, "POST", "/memories/find", body={"wanted": name})["file"]
    query: dict[str, str | int] = {"reason": "forgotten by hand"}
    done = ask(options, space, "DELETE", f"/memories/{quote(file)}", query=query)
    if as_json:
        print_json({"file": done["file"], "commit": done["commit"]})
    else:
        print(printable(f"forgot {done['file']}; `undo {done['commit'][:SHORT_COMMIT]}` brings it back."))


@memory.command(short_help="List changes, newest first.")
@click.argument("file", required=False)
@click.option(
    "--limit", type=click.IntRange(1, MAX_LOG), default=50, show_default=True, help="Maximum number."
)
@scope_option
@json_option
@click.pass_obj
def log(options: RunOptions, /, file: str | None, *, limit: int, space: str, as_json: bool) -> None:
    """List changes with author and reason, newest first; with FILE only those of that memory."""
    path = f"/memories/{quote(file)}/history" if file else "/history"
    commits = ask(options, space, "GET", path, query={"limit": limit})["commits"]
    if as_json:
        print_json([*commits])
    elif commits:
        rows = [
            [
                row["commit"][:SHORT_COMMIT],
                row["at"][:16],
                row["author"],
                row["reason"],
                ", ".join(row["files"]),
            ]
            for row in commits
        ]
        print_table(rows, header=["commit", "when", "author", "reason", "files"])
    else:
        print_error("nothing was changed yet")


@memory.command(short_help="Undo a change.")
@click.argument("commit", default="")
@scope_option
@json_option
@click.pass_obj
def undo(options: RunOptions, /, commit: str, *, space: str, as_json: bool) -> None:
    """Undo a commit of `log`; without one, the newest that is not undone. Later changes stay."""
    done = ask(options, space, "POST", "/undo", body={"commit": commit, "reason": "undone by hand"})
    if as_json:
        print_json(done)
    else:
        print(f"undid {done['undone'][:SHORT_COMMIT]}")


@memory.command(short_help="Show the origin of a memory.")
@click.argument("name")
@scope_option
@json_option
@click.pass_obj
def why(options: RunOptions, /, name: str, *, space: str, as_json: bool) -> None:
    """Show who wrote a memory, when and why, and the words it came from if a log still has them."""
    file = ask(options, space, "POST", "/memories/find", body={"wanted": name})["file"]
    found = ask(options, space, "GET", f"/memories/{quote(file)}/why")
    if as_json:
        print_json(found)
        return
    print(printable(f"{found['name']} ({found['file']}), origin: {found['origin']}"))
    for row in found["history"]:
        print(printable(f"  {row['at']} {row['author']}: {row['reason']}"))
    for said in found["words"]:
        print(printable(f"  {said['role']} said: {said['text']}"))


@click.command(short_help="Show which memories a message would get, and why.")
@click.argument("query", nargs=-1, required=True)
@scope_option
@json_option
@click.pass_obj
def recall(options: RunOptions, /, query: tuple[str, ...], *, space: str, as_json: bool) -> None:
    """Show which memories of the server QUERY would get in a conversation."""
    found = ask(options, space, "POST", "/recall", body={"query": " ".join(query)})
    if as_json:
        print_json(found)
        return
    if not found["picks"]:
        print(printable(found["skipped"] or "no memory is relevant enough"))
    for one in found["picks"]:
        print(printable(f"{one['file']}  score {one['score']:.2f}"))
        for line in one["text"].splitlines():
            print(printable(f"  {line}"))


def _row(row: dict[str, Any], second: str) -> list[str]:
    doubt = f"({row['origin']}) " * (row["origin"] in {"unverified", "untrusted"})
    return [row["file"], second, doubt + (row["description"] or "-")]
