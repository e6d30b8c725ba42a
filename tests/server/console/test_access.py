"""Who may see and change what in the console: links, keys, roles, cookies, forged requests, headers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from nacre.server.console.access import LoginLink, OneKey
from nacre.server.keys import LOCAL_TENANT, Role, new_key
from nacre.store.postgres.database import Database
from nacre.store.postgres.job_rows import JobRows
from nacre.testing import FrozenClock
from tests.server import serving as database
from tests.server.serving import Serving, serving

PAGES = (
    "/",
    "/memories",
    "/review",
    "/recall?q=where+is+heron",
    "/sessions",
    "/agents",
    "/dreams",
    "/history",
)


@asynccontextmanager
async def signed_in(
    server: Serving, role: Role = "member", **key: object
) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser that has signed in with a key."""
    text = await server.key(role, **key)  # type: ignore[arg-type]
    async with httpx2.AsyncClient(base_url=f"{server.url}/console", timeout=30) as client:
        answer = await client.post("/login", data={"key": text})
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/")
        yield client


async def csrf_of(client: httpx2.AsyncClient, path: str = "/memories/new") -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', (await client.get(path)).text)
    assert found is not None
    return found[1]


async def save(client: httpx2.AsyncClient, text: str, **fields: str) -> httpx2.Response:
    data = {"csrf": await csrf_of(client), "text": text, "do": "save", **fields}
    return await client.post("/memories/new", data=data)


async def test_no_page_is_shown_before_sign_in_and_the_login_leads_back_to_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, httpx2.AsyncClient(base_url=f"{server.url}/console") as client:
        for path in (*PAGES, "/settings", "/audit", "/events", "/memory/x.md"):
            answer = await client.get(path)
            assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (
                303,
                "/console/login",
            )
        assert "next=%2Fconsole%2Faudit" in (await client.get("/audit")).headers["location"]
        wanted = {"key": await server.key(), "next": "/console/history"}
        assert (await client.post("/login", data=wanted)).headers["location"] == "/console/history"
        for elsewhere in (
            "https://evil.example/",
            "//evil.example",
            "/console//evil.example",
            "/console/\\evil",
        ):
            answer = await client.post("/login", data={**wanted, "next": elsewhere})
            assert answer.headers["location"] == "/console/", elsewhere
        assert (await client.post("/login", data={"key": "nacre_x_y"})).status_code == 403


async def test_the_link_of_one_person_signs_in_one_browser_once(tmp_path: Path) -> None:
    key = replace(new_key(tenant="local", user="ada", role="admin"), local=True)
    link = LoginLink(key)
    token = link.token
    async with serving(tmp_path, link=link, keys=OneKey(key)) as server:
        async with httpx2.AsyncClient(base_url=f"{server.url}/console") as first:
            assert (await first.get("/enter", params={"token": "wrong"})).status_code == 403
            assert (await first.get("/enter", params={"token": token})).headers["location"] == "/console/"
            assert (await first.get("/")).status_code == 200
            # The same tab again, as from the browser's history.
            assert (await first.get("/enter", params={"token": token})).headers["location"] == "/console/"
        async with httpx2.AsyncClient(base_url=f"{server.url}/console") as second:
            for given in (token, ""):
                assert (await second.get("/enter", params={"token": given})).status_code == 403
            assert (await second.get("/")).status_code == 303
            assert (await second.post("/login", data={"key": f"nacre_{key.id}_"})).status_code == 403
        async with server.client(f"nacre_{key.id}_") as api:
            assert (await api.get("/memories")).status_code == 401


async def test_a_reader_sees_everything_and_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        async with signed_in(server) as member:
            assert (await save(member, "The build server is heron.", name="Build server")).status_code == 303
        async with signed_in(server, "reader") as reader:
            for path in PAGES:
                page = await reader.get(path)
                assert page.status_code == 200, path
                assert "<button>Undo" not in page.text and 'value="accept"' not in page.text, path
            csrf = await csrf_of(reader, "/")
            file = (await reader.get("/memories")).text.partition("/console/memory/")[2].partition('"')[0]
            assert "heron" in (await reader.get(f"/memory/{file}")).text
            for path in (
                "/memories/new",
                f"/edit/{file}",
                f"/forget/{file}",
                "/undo",
                "/review",
                "/mail",
                "/dreams",
            ):
                answer = await reader.post(path, data={"csrf": csrf, "text": "x", "to": "x", "id": "x"})
                assert answer.status_code in {403, 422}, path
            assert (await reader.get(f"/edit/{file}")).status_code == 403
            assert "heron" in (await reader.get(f"/memory/{file}")).text
            for path in ("/settings", "/audit"):
                assert (await reader.get(path)).status_code == 403
                assert path not in (await reader.get("/")).text


async def test_writes_are_in_the_audit_log_that_an_administrator_reads(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, signed_in(server, "admin") as admin:
        made = await save(admin, "The build server is heron.")
        commit = httpx2.URL(made.headers["location"]).params["commit"]
        assert await admin.post("/undo", data={"csrf": await csrf_of(admin), "commit": commit})
        page = (await admin.get("/audit")).text
        assert "saveMemory" in page and "undo" in page and commit[:8] in page and "127.0.0.1" in page
        assert "heron" not in page
        assert (await admin.get("/settings?show=all")).status_code == 200


async def test_a_form_without_the_token_of_its_session_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, signed_in(server) as client, signed_in(server) as other:
        theirs = await csrf_of(other)
        for given in ({}, {"csrf": ""}, {"csrf": theirs}, {"csrf": "é"}):
            answer = await client.post("/memories/new", data={**given, "text": "forged", "do": "save"})
            assert answer.status_code == 403
        as_json = await client.post("/memories/new", json={"csrf": await csrf_of(client), "text": "forged"})
        assert as_json.status_code == 415
        origin = {"Origin": "https://evil.example"}
        data = {"csrf": await csrf_of(client), "text": "forged", "do": "save"}
        assert (await client.post("/memories/new", data=data, headers=origin)).status_code == 403
        assert "forged" not in (await client.get("/memories")).text


async def test_a_revoked_or_expired_key_and_signing_out_end_the_session(tmp_path: Path) -> None:
    clock = FrozenClock()
    async with serving(tmp_path, clock=clock) as server:
        async with signed_in(server, days=1) as client:
            assert (await client.get("/")).status_code == 200
            clock.advance(timedelta(hours=11).total_seconds())
            assert (await client.get("/")).status_code == 200
            clock.advance(timedelta(hours=13).total_seconds())
            assert (await client.get("/")).status_code == 303
        async with signed_in(server) as client:
            await server.admin_keys.revoke((await server.admin_keys.list())[-1].id)
            assert (await client.get("/")).status_code == 303
        async with signed_in(server) as client:
            assert (await client.post("/logout", data={"csrf": await csrf_of(client)})).status_code == 303
            assert (await client.get("/")).status_code == 303
        async with signed_in(server) as client:
            clock.advance(timedelta(hours=12, seconds=1).total_seconds())
            assert (await client.get("/")).status_code == 303


async def test_every_answer_forbids_inline_code_frames_and_sniffing(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, signed_in(server, "admin") as client:
        for path in (*PAGES, "/login", "/audit", "/nothing", "/static/console.css", "/static/../app.py"):
            answer = await client.get(path)
            policy = answer.headers["content-security-policy"]
            assert "script-src 'self'" in policy and "unsafe" not in policy, path
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["x-frame-options"] == "DENY"
            assert not re.search(r"<script(?![^>]* src=)|\son\w+=|\sstyle=", answer.text), path
        text = await server.key()
        cookie = (await client.post("/login", data={"key": text})).headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "Path=/console" in cookie


async def test_another_host_name_is_not_answered(tmp_path: Path) -> None:
    async with serving(tmp_path, own_hosts=True) as server, httpx2.AsyncClient(base_url=server.url) as client:
        assert (await client.get("/console/login")).status_code == 200
        answer = await client.get("/console/login", headers={"Host": "evil.example"})
        assert answer.status_code == 421


async def test_a_key_for_some_spaces_sees_these_only(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        async with signed_in(server) as member:
            assert (await save(member, "The build server is heron.")).status_code == 303
        async with signed_in(server, "admin", spaces=("agent:tester",)) as bounded:
            page = await bounded.get("/memories")
            assert page.status_code in {200, 404} and "heron" not in page.text
            assert (await bounded.get("/memories?space=user")).status_code == 404
            for path in ("/audit", "/agents"):
                assert (await bounded.get(path)).status_code == 403


async def test_local_only_memories_and_credentials_are_not_shown_to_a_client_elsewhere(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as server:
        async with server.client(await server.key(local=True)) as client:
            body = {"text": "My doctor is Ida.", "name": "Doctor", "local_only": True}
            file = (await client.post("/memories", json=body)).json()["file"]
        async with signed_in(server, "admin") as elsewhere:
            for path in (
                "/",
                "/memories",
                "/memories?q=doctor",
                "/recall?q=who+is+my+doctor",
                "/history",
                "/graph",
            ):
                text = (await elsewhere.get(path)).text.replace("q=doctor", "").replace('value="doctor"', "")
                assert "Doctor" not in text and "Ida" not in text, path
            assert (await elsewhere.get(f"/memory/{file}")).status_code == 404
        async with signed_in(server, "admin", local=True) as here:
            assert "My doctor is Ida." in (await here.get(f"/memory/{file}")).text


@pytest.mark.slow
@pytest.mark.parametrize("store", ["postgres"], indirect=True)
async def test_with_a_database_the_pages_of_memory_are_there(tmp_path: Path, store: str) -> None:
    assert store == "postgres"
    async with serving(tmp_path) as server, signed_in(server, "admin") as admin:
        assert (await save(admin, "The build server is heron.", name="Build server")).status_code == 303
        for path in (
            "/",
            "/memories?q=heron",
            "/history",
            "/review",
            "/graph",
            "/sessions",
            "/agents",
            "/dreams",
            "/settings",
            "/audit",
        ):
            assert (await admin.get(path)).status_code == 200, path
        assert "Build server" in (await admin.get("/memories")).text
        assert "automatic" in (await admin.get("/settings")).text
        rows = JobRows(Database(database.DATABASE, is_server=False, idle=0))
        await rows.set_model(LOCAL_TENANT, "claude-haiku-4-5", "env:ACME_KEY", 2.5)
        shown = (await admin.get("/settings")).text
        assert "claude-haiku-4-5" in shown
        assert "env:ACME_KEY" in shown
        assert str(server.parts.settings.home) not in shown  # it is the operator's
    async with serving(tmp_path) as server, signed_in(server, "member") as member:
        assert (await member.get("/settings")).status_code == 403


async def test_what_a_page_cannot_be_asked_for_is_refused_in_a_page(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, signed_in(server) as client:
        for path, status in (
            ("/memory/missing.md", 404), ("/memory/%2e%2e/%2e%2e/etc/passwd", 404), ("/commit/zzzz", 404),
            ("/sessions/nothing", 404), ("/sessions/nothing/1", 404), ("/memories?space=project:none", 404),
            ("/sessions/x/999999999999999999999", 404), ("/memories?page=99999999999", 200),
        ):  # fmt: skip
            answer = await client.get(path)
            assert answer.status_code == status, path
            assert answer.headers["content-type"].startswith("text/html")
        assert (await client.post("/memories", data={"csrf": await csrf_of(client)})).status_code == 405
        secret = await save(client, "password: hunter2hunter2")
        assert secret.status_code == 422 and "secrets do not belong" in secret.text
        large = await save(client, "x" * 300_000)
        assert large.status_code == 422


async def test_a_page_says_what_is_missing_without_the_operations_of_the_api(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, signed_in(server) as client:
        missing = (await client.get("/memory/missing.md")).text
        assert "There is no memory &#39;missing.md&#39;." in missing
        assert "No session of this space begins with" in (await client.get("/sessions/nothing")).text
        assert "GET /" not in missing + (await client.get("/commit/zzzz")).text
        assert "Nothing is remembered here yet" in (await client.get("/recall?q=deploys")).text
        nothing = (await client.get("/memories?q=deploys")).text
        assert "No memory matches “deploys”" in nothing and "best first" not in nothing
        await save(client, "We deploy on Mondays.", name="Deploys")
        assert re.search(r"over HTTP by \w+</a>", (await client.get("/history")).text)


async def test_memories_are_in_the_order_of_the_times_that_the_page_shows(tmp_path: Path) -> None:
    """A file that was rewritten without a new `modified` does not come ahead of a newer memory."""
    async with serving(tmp_path) as server, signed_in(server) as client:
        await save(client, "The older text.", name="Older")
        await save(client, "The newer text.", name="Newer")
        [older] = server.parts.settings.home.rglob("*older*.md")
        text = re.sub(r"modified: \S+", "modified: 2020-01-01T00:00:00Z", older.read_text(encoding="utf-8"))
        older.write_text(text, encoding="utf-8")
        os.utime(older, (2**31, 2**31))
        page = (await client.get("/memories")).text
        assert 0 < page.index(">Newer<") < page.index(">Older<") and "2020-01-01" in page


async def test_events_name_what_has_changed(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, signed_in(server) as client:
        lines = []
        async with client.stream("GET", "/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            async for line in stream.aiter_lines():
                lines.append(line)
                if line == "data: ready":
                    assert (await save(client, "The build server is heron.")).status_code == 303
                if line == "data: memory":
                    break
        assert "event: changed" in lines


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
async def test_events_name_what_another_process_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    assert store == "postgres"
    async with AsyncExitStack() as stack:
        servers = []
        for name in ("one", "two"):  # with copies of their own, as on two machines
            monkeypatch.setenv("NACRE_HOME", str(tmp_path / name))
            servers.append(await stack.enter_async_context(serving(tmp_path)))
        watcher = await stack.enter_async_context(signed_in(servers[0]))
        writer = await stack.enter_async_context(servers[1].client(await servers[1].key()))
        async with watcher.stream("GET", "/events") as stream:
            async for line in stream.aiter_lines():
                if line == "data: ready":
                    await writer.post("/memories", json={"text": "The build server is heron."})
                if line == "data: memory":
                    break
        assert "heron" in (await watcher.get("/memories")).text


async def test_the_search_of_the_console_gives_what_the_api_gives(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, signed_in(server) as client:
        for n, text in enumerate(
            ("Heron builds the packages.", "Ibis serves the packages.", "The cat is grey.")
        ):
            assert (await save(client, text, name=f"Memory {n}")).status_code == 303
        async with server.client(await server.key()) as api:
            body = {"query": "who builds the packages", "limit": 50}
            found = (await api.post("/memories/search", json=body)).json()["memories"]
        page = await client.get("/memories?q=who+builds+the+packages", headers={"X-Part": "1"})
        assert re.findall(r'/console/memory/([^"]+)"', page.text) == [one["file"] for one in found]
        assert "<html" not in page.text


@pytest.mark.slow
async def test_an_open_page_does_not_delay_the_end_of_the_server(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nacre", "console", "--no-browser", "--json"]
    environ = {"HOME": str(tmp_path), "NACRE_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    link = json.loads(process.stdout.readline())["url"]
    async with httpx2.AsyncClient(base_url=link.partition("/enter")[0]) as client:
        await client.get(link)
        async with client.stream("GET", "/events") as stream:
            async for line in stream.aiter_lines():
                if line == "data: ready":
                    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    process.stdout.close()
