"""`nacre sim`: says where it listens, tells every request, ends well, and explains what it cannot do."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from nacre.cli.main import main
from nacre.messages.blocks import JsonObject
from tests.cli.program import world
from tests.cli.recorded import conversation, written


@contextmanager
def simulator(cwd: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "nacre", "sim", *args],
        cwd=cwd,
        env=world(cwd),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> JsonObject:
    assert process.stdout is not None
    found: JsonObject = json.loads(process.stdout.readline())
    return found


def asked(url: str, **body: object) -> JsonObject:
    request = urllib.request.Request(
        f"{url}/v1/messages",
        data=json.dumps({"model": "claude-opus-4-5", "max_tokens": 100} | body).encode(),
        headers={"x-api-key": "any", "anthropic-version": "2023-06-01", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        answer: JsonObject = json.loads(reply.read())
    return answer


HELLO = [{"role": "user", "content": "hello"}]


def test_programs_get_the_address_each_request_and_the_total(tmp_path: Path) -> None:
    """P6: one object a line; Ctrl-C is the ordinary ending and exits with 0."""
    (tmp_path / "script.json").write_text('["First.", "Second."]')
    with simulator(tmp_path, "--json", "--script", "script.json") as process:
        ready = line(process)
        url = str(ready["url"])
        assert ready == {"event": "ready", "url": url, "openai_url": f"{url}/v1", "replies": 2}
        assert asked(url, messages=HELLO)["content"] == [{"type": "text", "text": "First."}]
        first = line(process)
        assert (first["event"], first["number"], first["model"], first["status"]) == (
            "request",
            1,
            "claude-opus-4-5",
            200,
        )
        with pytest.raises(urllib.error.HTTPError):
            asked(url, messages=[])
        refused = line(process)
        assert refused["status"] == 400 and refused["error"]
        process.send_signal(signal.SIGINT)
        total = line(process)
        assert (total["event"], total["requests"], total["refused"]) == ("total", 2, 1)
        assert process.wait(30) == 0
        assert process.stderr is not None and process.stderr.read() == ""


def test_a_question_for_the_headers_alone_gets_no_body_and_keeps_the_connection(tmp_path: Path) -> None:
    """P6: what some clients and health checks send first."""
    with simulator(tmp_path, "--json") as process:
        address = str(line(process)["url"]).removeprefix("http://")
        with closing(http.client.HTTPConnection(address, timeout=30)) as connection:
            connection.request("HEAD", "/nowhere")
            unknown = connection.getresponse()
            assert (unknown.status, unknown.read()) == (404, b"")
            connection.request("HEAD", "/sim/log")
            headers = connection.getresponse()
            assert (headers.status, headers.read()) == (200, b"")
            kept = connection.sock
            connection.request("GET", "/sim/log")
            whole = connection.getresponse().read()
            assert len(whole) == int(str(headers.getheader("content-length"))) > 0
            assert connection.sock is kept


def test_people_are_told_how_to_point_a_client_at_it_and_see_what_was_paid(tmp_path: Path) -> None:
    written(tmp_path / "recorded.jsonl", conversation())
    with simulator(tmp_path, "--session", "./recorded.jsonl") as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(7)]
        url = told[0].split()[4]
        assert f"ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=any" in told[2]
        assert (
            told[6] == "Replies: 2 recorded or scripted replies, then it says that its script is exhausted.\n"
        )
        reply = asked(url, messages=HELLO)["content"]
        assert isinstance(reply, list) and [block["type"] for block in reply if isinstance(block, dict)] == [
            "text",
            "tool_use",
        ]
        row = process.stdout.readline()
        assert row.startswith("   1  claude-opus-4-5  read 0  written 0  input ") and "$" in row
        process.send_signal(signal.SIGTERM)
        assert "1 request, 0% of the prompts read from the cache" in process.stdout.read()
        assert process.wait(30) == 0


def test_the_embedded_engine_answers_when_asked_to(tmp_path: Path) -> None:
    """P4."""
    with simulator(tmp_path, "--embedded", "--json", "--clock", "manual") as process:
        content = asked(str(line(process)["url"]), messages=HELLO)["content"]
        assert "No language model is configured" in str(content)


def test_a_port_in_use_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["sim", "--port", str(port)]) == 3
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "choose another --port" in err


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--script", "missing.json"], 3),
        (["--session", "missing"], 1),
        (["--session", "./missing.jsonl"], 1),
        (["--session", "./mute.jsonl"], 1),
        (["--port", "70000"], 2),
        (["--clock", "slow"], 2),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: list[str],
    code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "mute.jsonl", conversation()[:1])
    assert main(["sim", *args]) == code
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
