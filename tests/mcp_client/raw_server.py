"""A server in bare JSON lines, of the older protocol: what the SDK would never let a server do.

`raw_server.py BEHAVIOUR [WORDS]`; starts in a fraction of the time the SDK takes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time

BEHAVIOUR, WORDS = sys.argv[1], " ".join(sys.argv[2:])
SCHEMA = {
    "type": "object",
    "properties": {"b": {"type": "string"}, "a": {"type": "number"}},
    "required": ["b", "a"],
}


TRACKER = [
    f"{verb}_{noun}"
    for verb in ("create", "list", "update", "delete")
    for noun in ("issue", "comment", "label", "milestone", "board")
]
"""Twenty tools, as many as an ordinary server has."""


def tracker_tool(name: str) -> dict[str, object]:
    """A tool of the length that those of public servers have: some 200 tokens."""
    verb, noun = name.split("_")
    described = {
        "project": f"The project that the {noun} belongs to, as owner/name.",
        "identifier": f"The number of the {noun}; not needed to create or to list.",
        "title": f"The title of the {noun}, one line without formatting.",
        "body": "The text in Markdown. Mentions such as @name notify the person.",
        "state": "Only those in this state: open, closed or all.",
    }
    properties = {key: {"type": "string", "description": text} for key, text in described.items()}
    return {
        "name": name,
        "description": f"{verb.title()}s a {noun} of the tracker. Returns the {noun} as JSON with its "
        "number, state and address. Fails if the project does not exist or the token may not write to it.",
        "inputSchema": {"type": "object", "properties": properties, "required": ["project"]},
    }


def send(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def tool(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "description": f"The tool {name}.", "inputSchema": {"type": "object"}, **more}


def shuffled(value: object) -> object:
    if isinstance(value, dict):
        items = list(value.items())
        random.shuffle(items)
        return {key: shuffled(item) for key, item in items}
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return random.sample(value, len(value))
    return value


def listing(params: dict[str, object]) -> dict[str, object]:
    if BEHAVIOUR == "pages":
        page = int(str(params.get("cursor") or 0))
        tools = [tool(f"t{page * 10 + place:02}") for place in range(10)]
        return {"tools": tools, **({"nextCursor": str(page + 1)} if page < 4 else {})}
    if BEHAVIOUR == "endless":
        return {"tools": [tool("one")], "nextCursor": "again"}
    if BEHAVIOUR == "shuffle":
        tools = [tool(name, inputSchema=shuffled(SCHEMA)) for name in "abcdef"]
        random.shuffle(tools)
        return {"tools": tools}
    if BEHAVIOUR == "tracker":
        return {"tools": [tracker_tool(name) for name in TRACKER]}
    if BEHAVIOUR == "odd":
        alternatives = [{"properties": {"x": {"type": "string"}}}, {"properties": {"y": {"type": "string"}}}]
        return {
            "tools": [
                tool("n" * 80),
                tool("n" * 81),
                tool("with space"),
                tool("读"),
                tool("wordy", description="w" * 5_000),
                tool("vast", inputSchema={"type": "object", "properties": {"x" * 70_000: {}}}),
                tool("either", inputSchema={"type": "object", "oneOf": alternatives}),
                tool("twice", description="First."),
                tool("twice", description="Second."),
            ]
        }
    return {
        "tools": [tool(name) for name in ("change", "die", "echo", "gone", "hang", "huge", "odd")][
            : 3 if changed else 7
        ]
    }


changed = False


def call(name: str, arguments: dict[str, object]) -> dict[str, object]:
    global changed
    if name == "change":
        changed = True
        for _ in range(5):
            send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    if name == "die":
        print(WORDS or "I cannot go on", file=sys.stderr, flush=True)
        os._exit(9)
    if name == "hang":
        time.sleep(600)
    if name == "huge":
        sys.stdout.write("x" * 70 * 1024 * 1024)
    if name == "odd":
        return {"content": "this is not a list"}
    return {"content": [{"type": "text", "text": json.dumps(arguments)}]}


def answer(method: str, params: dict[str, object]) -> object:
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "raw", "version": "1"},
                "instructions": "i" * 5_000 if BEHAVIOUR == "odd" else WORDS,
            }
        case "tools/list":
            return listing(params)
        case "tools/call":
            return call(str(params["name"]), params.get("arguments") or {})
        case _:
            return None


def main() -> None:
    if BEHAVIOUR == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if BEHAVIOUR == "dead":
        sys.exit("Traceback of my own\nno \x1b[31mdatabase\x1b[0m here")
    if BEHAVIOUR == "silent":
        print("waiting for a database", file=sys.stderr, flush=True)
        time.sleep(600)
    if BEHAVIOUR == "babble":
        print("Usage: not a server at all", flush=True)
        time.sleep(600)
    for line in sys.stdin:
        message = json.loads(line)
        if BEHAVIOUR == "garbage":
            print("debug: \x1b[1mgot\x1b[0m a message\n\n{not json}\n[1, 2]", flush=True)
        if BEHAVIOUR == "flood":
            print("e" * 1_000_000, file=sys.stderr, flush=True)
        if "id" in message:
            result = answer(message["method"], message.get("params") or {})
            failed = {"error": {"code": -32601, "message": "Method not found"}}
            send(
                {"jsonrpc": "2.0", "id": message["id"], **(failed if result is None else {"result": result})}
            )
    if BEHAVIOUR == "stubborn":
        time.sleep(600)


main()
