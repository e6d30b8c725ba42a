"""A gateway as a part of `nacre serve`."""

from __future__ import annotations

import json
import os
import signal
import sys
from asyncio import create_subprocess_exec, subprocess, wait_for
from pathlib import Path

import httpx2
import pytest
from anthropic import AsyncAnthropic

from nacre.cli.main import main
from nacre.devtools.sim.simulator import Simulator
from nacre.server.gateway.records import read_records
from nacre.server.gateway.report import report


async def test_a_server_is_a_gateway_too_and_drains_both(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    async with Simulator(["hello", "again"]) as sim:
        options = ["--gateway", "--upstream", sim.url, "--gateway-with", "memory", "--json"]
        command = [sys.executable, "-m", "nacre", "serve", *options]
        process = await create_subprocess_exec(*command, cwd=tmp_path, stdout=pipe, stderr=pipe)
        assert process.stdout is not None
        said = json.loads(await wait_for(process.stdout.readline(), 30))
        assert said["gateway"] == f"{said['url']}/gateway"
        client = AsyncAnthropic(base_url=said["gateway"], api_key="k", max_retries=0)
        reply = await client.messages.create(
            model="claude-sonnet-5-5", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
        )
        await client.close()
        async with httpx2.AsyncClient(base_url=said["url"]) as other:
            assert (await other.get("/v1/memories")).status_code == 401
            assert (await other.get("/healthz")).status_code == 200
            assert (await other.get("/gateways")).status_code == 404
            origin = {"origin": "https://pages.example"}
            assert (await other.post("/gateway/v1/messages", headers=origin)).status_code == 403
        process.send_signal(signal.SIGTERM)
        _, errors = await wait_for(process.communicate(), 30)
    assert reply.content[0].to_dict() == {"type": "text", "text": "hello"}
    assert process.returncode == 0
    assert b"Traceback" not in errors
    assert len(sim.log) == 1
    [session] = report(read_records(Path(os.environ["NACRE_HOME"])))
    assert session.requests == 1


@pytest.mark.parametrize("options", [["--gateway-with", "memory"], ["--upstream", "http://127.0.0.1:1"]])
def test_options_of_the_gateway_need_it(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", *options]) == 2
    assert f"{options[0]} needs --gateway" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--behind-proxy"], ["--database", "postgresql://x@127.0.0.1/x"]])
def test_it_is_for_one_person_on_loopback(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--gateway", *options]) == 3
    error = capsys.readouterr().err
    assert "one person on loopback" in error
    assert len(error.splitlines()) == 1
