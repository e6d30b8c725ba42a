"""`nacre gateway` as a process."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

import nacre
from nacre.cli.main import main
from nacre.devtools.sim.simulator import Simulator
from tests.cli.program import world

KEY = {"x-api-key": "sk-ant-api-secret", "anthropic-version": "2023-06-01"}
ASKED = {"model": "claude-sonnet-5-5", "max_tokens": 99, "messages": [{"role": "user", "content": "hi"}]}


def environment(cwd: Path) -> dict[str, str]:
    """The same nacre as in this process, with a home of its own."""
    return {**world(cwd), "PYTHONPATH": str(Path(nacre.__file__).parents[1])}


@asynccontextmanager
async def process(cwd: Path, *args: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, dict[str, Any]]]:
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-m", "nacre", "gateway", "--json", *args]
    started = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, env=environment(cwd), stdout=pipe, stderr=pipe
    )
    try:
        assert started.stdout is not None
        line = await asyncio.wait_for(started.stdout.readline(), 30)
        yield started, json.loads(line)
    finally:
        if started.returncode is None:
            started.terminate()
        await asyncio.wait_for(started.communicate(), 30)


def reported(cwd: Path) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "nacre", "gateway", "report", "--json"]
    printed = subprocess.run(
        command, cwd=cwd, env=environment(cwd), check=True, capture_output=True, timeout=60
    )
    found: list[dict[str, Any]] = json.loads(printed.stdout)["sessions"]
    return found


async def test_the_command_prints_its_address_first_and_the_report_has_what_passed(tmp_path: Path) -> None:
    async with Simulator(["hello"] * 2) as sim, process(tmp_path, "--upstream", sim.url) as (gateway, ready):
        assert set(ready) >= {"url", "pid"}
        assert ready["pid"] == gateway.pid
        async with httpx2.AsyncClient(base_url=ready["url"], headers=KEY) as client:
            reply = await client.post("/v1/messages", json=ASKED, headers={"user-agent": "my-agent/2 (x)"})
        assert reply.json()["content"][0]["text"] == "hello"
        gateway.terminate()
        out, err = await gateway.communicate()
    assert (gateway.returncode, out, err) == (-signal.SIGTERM, b"", b"")
    [session] = await asyncio.to_thread(reported, tmp_path)
    assert session["client"] == "my-agent/2"
    assert session["requests"] == 1
    assert session["cost_usd"] == sim.log[0].cost_usd
    names = {"client", "requests", "cost_usd", "cache_hit_rate", "pauses_usd", "refreshes", "broken_by"}
    assert names <= set(session)


async def test_a_killed_gateway_loses_no_record_that_was_complete(tmp_path: Path) -> None:
    """Killed while streams are open: what was recorded stays readable, and the next start appends to it."""
    async with Simulator(["hello"] * 40) as sim:
        for times in (1, 2):
            async with (
                process(tmp_path, "--upstream", sim.url) as (gateway, ready),
                httpx2.AsyncClient(base_url=ready["url"], headers=KEY, timeout=30) as client,
            ):
                for _ in range(10):
                    assert (await client.post("/v1/messages", json=ASKED)).status_code == 200
                fault = {"x-sim-fault": "hang; after=3"}
                body = {**ASKED, "stream": True}
                async with client.stream("POST", "/v1/messages", json=body, headers=fault) as hanging:
                    parts = hanging.aiter_raw()
                    await anext(parts)
                    gateway.kill()
                    await gateway.wait()
                    with pytest.raises(httpx2.TransportError):
                        async for _ in parts:
                            pass
            found = await asyncio.to_thread(reported, tmp_path)
            assert sum(one["requests"] for one in found) == 10 * times
        [path] = Path(environment(tmp_path)["NACRE_HOME"]).glob("gateway/*.jsonl")
        with path.open("ab") as file:
            file.write(b'{"at":"2026-11-18T00:00:00","session":"torn')  # as a kill during the write leaves it
        async with (
            process(tmp_path, "--upstream", sim.url) as (_, ready),
            httpx2.AsyncClient(base_url=ready["url"], headers=KEY) as client,
        ):
            await client.post("/v1/messages", json=ASKED)
        found = await asyncio.to_thread(reported, tmp_path)
        assert sum(one["requests"] for one in found) == 21


@pytest.mark.parametrize(
    ("args", "advice"),
    [
        (["--upstream", "api.example.com"], "--upstream takes the address of a provider"),
        (["--port", "99999"], "--port"),
        (["--record", "/dev/null/recordings"], "/dev/null/recordings"),
        (["--shrink-window", "5000"], "--shrink-window needs --shrink"),
        (["--keep-warm-usd", "1"], "--keep-warm-usd needs --keep-warm"),
        (["--keep-warm", "--keep-warm-usd", "nan"], "--keep-warm-usd takes an amount"),
    ],
)
def test_bad_options_are_one_line(args: list[str], advice: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway", *args]) in {1, 2, 3}
    said = capsys.readouterr()
    assert advice in said.err
    assert "Traceback" not in said.err
    assert said.out == ""  # no address of a gateway that does not start


def test_a_report_without_records_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway", "report"]) == 0
    assert "`nacre gateway` prints the address" in capsys.readouterr().out


@pytest.mark.slow
async def test_the_commands_of_its_page_work(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "use-the-gateway.md").read_text("utf-8")
    commands = [line.removeprefix("$ ") for line in page.splitlines() if line.startswith("$ ")]
    gateways = [one.split()[2:] for one in commands if one.startswith("nacre gateway --port")]
    recorded = ["--port", "8787", "--record", "recordings"]
    with_flags = [["--port", "8787", flag] for flag in ("--keep-warm", "--memory", "--shrink")]
    assert gateways == [["--port", "8787"], recorded, *with_flags]
    for given in gateways:
        args = [one if one != "8787" else "0" for one in given]
        async with Simulator(["hello"]) as sim, process(tmp_path, *args, "--upstream", sim.url) as (_, ready):
            client = [sys.executable, "-m", "nacre", "--bare", "--model", "claude-sonnet-5-5", "-p", "hi"]
            environ = environment(tmp_path) | {"ANTHROPIC_BASE_URL": ready["url"], "ANTHROPIC_API_KEY": "any"}
            [variable] = {one.split("=")[0] for one in commands if one.endswith(" claude")}
            assert variable in environ
            asked = await asyncio.create_subprocess_exec(
                *client, cwd=tmp_path, env=environ, stdout=asyncio.subprocess.PIPE
            )
            out, _ = await asyncio.wait_for(asked.communicate(), 60)
            assert out.strip() == b"hello"
    printed = {}
    for one in ("nacre gateway report", "nacre replay recordings"):
        assert one in commands
        command = [sys.executable, "-m", *one.split()]
        env = environment(tmp_path)
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=tmp_path, env=env, check=True, capture_output=True, timeout=60
        )
        printed[one] = done.stdout
    assert printed["nacre gateway report"].count(b"AsyncAnthropic/Python") == len(gateways)
    assert printed["nacre replay recordings"].startswith(b"1 session")
