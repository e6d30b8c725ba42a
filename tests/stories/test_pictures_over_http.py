"""Pictures and documents from the person, from Read and from tools, with the official SDKs over HTTP."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.devtools.sim import Simulator
from nacre.layers.l1_offload.policy import OffloadSettings
from nacre.messages.blocks import Image, JsonObject, Text, ToolResult
from nacre.messages.events import Notice
from nacre.messages.media import as_image, media_bytes
from nacre.messages.tokens import estimate_blocks
from nacre.messages.wire import canonical
from nacre.session.compaction import CompactionRequest
from nacre.settings import load
from nacre.testing import ScriptedProvider
from nacre.testing import call as scripted_call
from nacre.testing import say as scripted_say
from nacre.tools.base import Tool, tool
from tests.pictures import jpeg, pdf, png
from tests.stories.scenes import (
    CLAUDE,
    GPT,
    RESPONSES,
    call,
    calls,
    chain_of,
    environment,
    quiet,
    say,
    talking_to,
)

MODELS = [CLAUDE, GPT, RESPONSES]
SCREEN, PHOTO = png(1_000, 700), jpeg(300, 200)


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = quiet(tmp_path / "work")
    (folder / "screen.png").write_bytes(SCREEN)
    (folder / "paper.pdf").write_bytes(pdf(2))
    return folder


@pytest.mark.parametrize("model", MODELS)
async def test_pictures_reach_the_model_and_a_resumed_session_sends_the_same_bytes(
    cwd: Path, model: str
) -> None:
    read = calls(call("Read", file_path="screen.png"), call("Read", file_path="paper.pdf"))
    async with Simulator([read, "Seen.", "Still there."]) as sim:
        async with talking_to(sim, model, cwd) as ready:
            await ready.agent.run("what is this?", images=[PHOTO])
            assert ready.agent.session.tokens == pytest.approx(sim.log[-1].usage.prompt, rel=0.05)
        async with talking_to(sim, model, cwd, session="latest") as ready:
            await say(ready.agent, "and now?")
    assert [one.status for one in sim.log] == [200] * 3
    key = "input" if model == RESPONSES else "messages"
    sent = canonical(sim.log[-1].body[key]).decode()
    assert all(sent.count(coded(data)) == 1 for data in (SCREEN, PHOTO, pdf(2)))
    if model == CLAUDE:
        before, after = (chain_of(one.body["messages"]) for one in sim.log[1:])
        assert after[: len(before)] == before
        assert sim.log[2].usage.cache_read >= 0.99 * (
            sim.log[1].usage.cache_read + sim.log[1].usage.cache_write
        )
    else:
        before, after = (one.body[key] for one in sim.log[1:])
        assert isinstance(before, list) and isinstance(after, list) and after[: len(before)] == before


async def test_each_api_gets_pictures_in_its_own_form(cwd: Path) -> None:
    """Chat completions take none in tool messages: they are in the user message that follows."""
    bodies: dict[str, list[JsonObject]] = {}
    for model in MODELS:
        script = [calls(call("Read", file_path="screen.png")), "Seen."]
        async with Simulator(script) as sim, talking_to(sim, model, cwd) as ready:
            await ready.agent.run("what is this?", images=[cwd / "screen.png"])
        bodies[model] = [one.body for one in sim.log]
    address = f"data:image/png;base64,{coded(SCREEN)}"
    claude = str(bodies[CLAUDE][1]["messages"])
    assert claude.count("'type': 'image', 'source': {'type': 'base64', 'media_type': 'image/png'") == 2
    chat = bodies[GPT][1]["messages"]
    assert isinstance(chat, list)
    assert {"type": "image_url", "image_url": {"url": address}} in chat[-1]["content"]  # type: ignore[index,call-overload,operator]
    assert [one["role"] for one in chat[-2:]] == ["tool", "user"]  # type: ignore[index,call-overload]
    assert "see the picture that follows" in str(chat[-2])
    output = bodies[RESPONSES][1]["input"][-1]["output"]  # type: ignore[index,call-overload]
    assert {"type": "input_image", "detail": "auto", "image_url": address} in output  # type: ignore[operator]


async def test_a_model_without_vision_gets_a_line_and_the_person_a_notice(cwd: Path) -> None:
    provider = ScriptedProvider([scripted_call("Read", file_path="screen.png"), scripted_say("A file.")])
    settings = load(cwd, environment(cwd), cli={"model": "openai:some-local-model"})
    async with open_agent(settings, provider=provider) as ready:
        events = [event async for event in ready.agent.stream("what is this?", images=[PHOTO])]
        notices = [event.text for event in events if isinstance(event, Notice)]
    sent = str(provider.requests[-1].messages)
    assert coded(SCREEN) not in sent and coded(PHOTO) not in sent
    assert "[JPEG picture, 300x200, " in sent and "[PNG picture, 1000x700, " in sent
    assert any("takes no pictures as far as nacre knows" in line for line in notices)


@tool
def screens() -> ToolResult:
    """Take twelve screenshots."""
    return ToolResult("", (Text("twelve"), *(as_image(png(1_000, 750 + n)) for n in range(12))))


async def test_pictures_that_are_too_many_at_once_are_on_disk_and_can_be_read(cwd: Path) -> None:
    def with_screens(usual: list[Tool]) -> list[Tool]:
        return [*usual, screens]

    async with Simulator([calls(call("screens")), "Twelve.", "Again."]) as sim:
        async with talking_to(sim, CLAUDE, cwd, tools=with_screens) as ready:
            await say(ready.agent, "look")
            [result] = [
                block
                for item in ready.agent.session.view.items
                for block in (part.block for part in item.parts)
                if isinstance(block, ToolResult)
            ]
        async with talking_to(sim, CLAUDE, cwd, session="latest", tools=with_screens) as ready:
            await say(ready.agent, "and now?")
    shown = [part for part in result.content if isinstance(part, Image)]
    lines = [part.text for part in result.content if isinstance(part, Text) and "Read shows it" in part.text]
    assert len(shown) + len(lines) == 12 and 5 < len(shown) < 12
    assert estimate_blocks(shown) <= OffloadSettings().image_tokens
    files = [Path(line.rpartition(": ")[2].removesuffix("]")) for line in lines]
    assert [file.read_bytes() for file in files] == [png(1_000, 750 + n) for n in range(len(shown), 12)]
    assert [one.status for one in sim.log] == [200] * 3
    assert chain_of(sim.log[2].body["messages"])[:3] == chain_of(sim.log[1].body["messages"])[:3]


@pytest.mark.moves_prefix(reason="it clears and compacts")
async def test_a_picture_is_cleared_with_its_file_and_gone_after_a_compaction(cwd: Path) -> None:
    reads = [scripted_call("Read", file_path="screen.png")]
    reads += [scripted_call("Read", file_path=f"module_{n % 4}.py", offset=n + 1) for n in range(4)]
    provider = ScriptedProvider([*reads], otherwise=scripted_say("Done."))
    (cwd / "home" / "settings.json").write_text(
        '{"switches": {"notes": false, "compact_prepare": false, "extract": false, "dream": false},'
        ' "microcompact": {"idleSeconds": 0.1, "keep": 1}}'
    )
    settings = load(cwd, environment(cwd), cli={"model": CLAUDE})
    async with open_agent(settings, provider=provider) as ready:
        await say(ready.agent, "look")
        assert coded(SCREEN) in str(provider.requests[-1].messages)
        await asyncio.sleep(0.2)
        await say(ready.agent, "go on")
        sent = str(provider.requests[-1].messages)
        assert coded(SCREEN) not in sent
        path = Path(sent.partition("The file that it showed is in ")[2].partition(";")[0])
        assert path.read_bytes() == SCREEN and path.suffix == ".png"
        await ready.agent.run("see this", images=[PHOTO])
        await say(ready.agent, "word " * 30_000, "more " * 30_000)
        await ready.compact.compact(CompactionRequest(by_rule=True))
        await say(ready.agent, "after")
        assert coded(PHOTO) not in str(provider.requests[-1].messages)
    assert media_bytes(as_image(path)) == SCREEN
