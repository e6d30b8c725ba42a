from __future__ import annotations

import asyncio
import os
from pathlib import Path

from nacre.agents.team_roster import Roster, member_here
from nacre.layers.l7_mail.mailbox import Mailbox
from nacre.settings import load
from tests.server.serving import serving


async def test_usage_is_what_stats_prints(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        await client.post("/memories", json={"text": "The build server is heron."})
        usage = (await client.get("/usage", params={"days": 3})).json()
        assert (usage["days"], usage["requests"], usage["cost_usd"]) == (3, 0, 0.0)
        assert (await client.get("/usage", params={"days": 0})).status_code == 400


async def test_a_job_runs_in_the_background_and_is_listed(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        await client.post("/memories", json={"text": "The build server is heron."})
        assert (await client.get("/jobs")).json() == {"jobs": []}
        for kind in ("index", "dream"):
            begun = await client.post("/jobs", json={"kind": kind})
            assert (begun.status_code, begun.json()["kind"]) == (202, kind)
            for _ in range(500):
                jobs = (await client.get("/jobs")).json()["jobs"]
                if jobs[0]["status"] != "running":
                    break
                await asyncio.sleep(0.01)
            assert (jobs[0]["kind"], jobs[0]["status"], jobs[0]["error"]) == (kind, "completed", None)
        assert jobs[1]["result"] == {"memories": 1}
        assert jobs[0]["result"]["status"] in {"completed", "skipped"}


async def test_mail_reaches_a_member_of_a_team(tmp_path: Path) -> None:
    home = load(tmp_path, os.environ).home
    roster = Roster(home, "birds")
    roster.create(member_here("wren", agent_type="tester", cwd=str(tmp_path)))
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        sent = await client.post("/mail", json={"to": "wren", "team": "birds", "text": "The build is green."})
        assert (sent.status_code, sent.json()["to"]) == (201, ["wren"])
        letter = Mailbox(roster.inbox_path("wren")).waiting().letters[0]
        assert (letter.text, letter.sender, letter.id) == (
            "The build is green.", "other:ada", sent.json()["ids"][0],
        )  # fmt: skip
        teams = (await client.get("/agents")).json()["teams"]
        assert [one["team"] for one in teams] == ["birds"]
        for to in ("nobody", "*", "uds:/tmp/x"):
            answer = await client.post("/mail", json={"to": to, "text": "Hello."})
            assert answer.status_code in {404, 422}, to
