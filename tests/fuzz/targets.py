"""Parsers of bytes that others wrote: each target reads one case and may raise errors of nacre only.

Seeds are the files in `seeds/<target>/`. A case is a seed after some mutations; its number alone decides
which, so that case 17 of a target is the same on every machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import anthropic
import httpx2
import mcp_types
import openai
from pydantic import ValidationError

from nacre.agents.team_tasks import TASKS, TeamTasks
from nacre.agents.types import parse_type
from nacre.cache.models import profile
from nacre.context.plan import Plan
from nacre.context.skills import SkillFolder, find_skills, skill_text
from nacre.devtools.sim import Simulator, parse_script
from nacre.errors import ConfigError, NacreError
from nacre.hooks.command import HookRun, answer
from nacre.hooks.table import EVENTS, parse_hooks
from nacre.integrations.claude_code.input import parse_input
from nacre.integrations.framework_session import Layers
from nacre.integrations.mcp_server.greeting import _handshake
from nacre.integrations.mcp_server.stdio import mended
from nacre.integrations.request_shrinker import RequestShrinker
from nacre.layers.l3_notes.notes import is_by_rule
from nacre.layers.l4_compact import summarise
from nacre.layers.l7_mail import letter
from nacre.layers.l7_mail.mailbox import Mailbox, peek
from nacre.mcp_client.base import parse_servers
from nacre.mcp_client.translate import to_outcome
from nacre.memory.checks.origins import origin_of
from nacre.memory.checks.support import is_supported_by
from nacre.memory.daily_log import read_log
from nacre.memory.dates.absolute import full_dates, without_dates
from nacre.memory.dates.ranges import date_ranges
from nacre.memory.dates.relative import relative_phrases, resolve_dates
from nacre.memory.format.entry import read_entry
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.format.index import MemoryIndex, load_index
from nacre.memory.instructions.includes import includes_in, is_any, split_head, without_comments
from nacre.memory.purge.final_scan import FinalScan
from nacre.memory.purge.traces import Traces
from nacre.memory.recall.drift.tree_files import parse_index
from nacre.memory.secrets import assigned_values, find_secrets, pointer_text, redact, repeats_value
from nacre.memory.team.git import _rows
from nacre.memory.team.merge import merged_index
from nacre.memory.team.remote import STATE_FILE, parse_known, read_state
from nacre.memory.team.rules import content_objection, sharing_objection
from nacre.memory.transfer.import_sources import read_batch
from nacre.messages.blocks import JsonObject
from nacre.messages.foreign import read_foreign, recognise
from nacre.messages.jsonl import decode
from nacre.messages.media import media_block, media_facts
from nacre.messages.tokens import estimate_blocks, estimate_text
from nacre.messages.untrusted_text import neutralise
from nacre.messages.view import View
from nacre.messages.wire import parse_content
from nacre.providers.anthropic import AnthropicProvider
from nacre.providers.base import Provider, Request
from nacre.providers.openai import OpenAICompatibleProvider
from nacre.providers.text_calls import parse_text_calls
from nacre.server.gateway.conversation import changed_conversation, parse_conversation, refresh_objection
from nacre.server.gateway.person_messages import (
    is_side_request,
    person_messages,
    with_texts,
    working_directory,
)
from nacre.server.gateway.reply_reader import ReplyReader
from nacre.server.gateway.upstream import Api
from nacre.settings import load
from nacre.store import boundaries, summaries
from nacre.store.git_objects import GitRepository
from nacre.store.git_packs import GitPack
from nacre.tools.page import page_text
from nacre.tools.rules import meets_path, parse_rule
from nacre.tools.shell import explain, programs
from tests.fuzz.mutate import mutated

SEEDS = Path(__file__).parent / "seeds"
CASE_SECONDS = 2.0
"""Processor time that one case may take."""
TARGETS: dict[str, Callable[[bytes, Path], object]] = {}
"""Each reads one case; the folder is empty at first and is used again by the next case."""
AT = datetime(2026, 3, 31, 12, tzinfo=UTC)


class CaseTimeoutError(BaseException):
    """Raised in a case that takes too long; no handler of a parser catches it."""


@functools.cache
def seeds(name: str) -> tuple[bytes, ...]:
    """Return the seeds of a target in a fixed order."""
    return tuple(path.read_bytes() for path in sorted((SEEDS / name).iterdir()))


def case(name: str, number: int) -> bytes:
    """Return one case of a target; the first ones are the seeds themselves."""
    known = seeds(name)
    return known[number] if number < len(known) else mutated(known, Random(f"{name} {number}"))


def run_case(name: str, number: int, folder: Path) -> tuple[str, float]:
    """Run one case; return what is wrong, empty if nothing, and the processor time it took."""
    data = case(name, number)
    began = time.process_time()
    try:
        with _limited(CASE_SECONDS):
            TARGETS[name](data, folder)
        fault = ""
    except NacreError as error:
        fault = "an error of several lines" if "\n" in str(error) else ""
    except CaseTimeoutError:
        fault = f"no end after {CASE_SECONDS:g} s"
    except Exception as error:  # noqa: BLE001 - any other error is the finding
        fault = f"{type(error).__name__}: {str(error)[:200]}"
    return fault, time.process_time() - began


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(_: int, __: FrameType | None) -> None:
        raise CaseTimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def target(function: Callable[[bytes, Path], object]) -> Callable[[bytes, Path], object]:
    TARGETS[function.__name__] = function
    return function


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


@functools.cache
def loop() -> asyncio.Runner:
    return asyncio.Runner()


@target
def transcripts(data: bytes, _: Path) -> None:
    loaded = decode(data.splitlines(keepends=True))
    View.of(loaded.records)


@target
def log_boundaries(data: bytes, folder: Path) -> None:
    """A log that is searched for compactions, and the file that holds what was found."""
    log = folder / "log.jsonl"
    log.write_bytes(data)
    found = boundaries.up_to_date(log, None)
    found.resume(len(data))
    summaries.summarise(log)
    (folder / "sidecar").write_bytes(data)
    known = boundaries.load(folder / "sidecar")
    boundaries.up_to_date(log, known)


@target
def foreign_sessions(data: bytes, _: Path) -> None:
    recognise(data[:65_536])
    for session in read_foreign(data, name="session.json"):
        View.of(session.records)


def _replay(provider: Provider) -> None:
    async def read() -> None:
        request = Request(model="claude-opus-5-5", messages=[{"role": "user", "content": "Hello."}])
        async for _ in provider.stream(request):
            pass

    loop().run(read())


ANSWER = bytearray()
"""What the simulated server answers; a client is built once, which takes longer than most answers."""


@functools.cache
def _answering() -> httpx2.AsyncClient:
    def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=bytes(ANSWER))

    return httpx2.AsyncClient(transport=httpx2.MockTransport(respond))


@functools.cache
def _anthropic() -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(api_key="any", base_url="http://x", http_client=_answering())


@functools.cache
def _openai() -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="any", base_url="http://x", http_client=_answering())


@target
def anthropic_stream(data: bytes, _: Path) -> None:
    ANSWER[:] = data
    _replay(AnthropicProvider(client=_anthropic()))


@target
def openai_stream(data: bytes, _: Path) -> None:
    ANSWER[:] = data
    _replay(OpenAICompatibleProvider(client=_openai()))


@target
def responses_stream(data: bytes, _: Path) -> None:
    ANSWER[:] = data
    _replay(OpenAICompatibleProvider(client=_openai(), api="responses"))


@target
def gateway_requests(data: bytes, folder: Path) -> None:
    """What a client sends through the gateway, with memory and shrinking on."""
    apis: tuple[Api, ...] = ("messages", "chat", "responses")
    for api in apis:
        said = parse_conversation(api, data)
        if said is None:
            continue
        refresh_objection(said.body, profile(said.model))
        people = person_messages(api, said.body)
        is_side_request(api, said.body)
        working_directory(api, said.body)
        changed = with_texts(api, said.body, {one.index: "a memory" for one in people})
        changed_conversation(said, changed)
        layers = Layers(window=4_000)
        shrunk = loop().run(RequestShrinker(folder / "results", layers).shrink(api, changed))
        if shrunk is not None and shrunk.body is not None:
            assert parse_conversation(api, json.dumps(shrunk.body).encode()) is not None


@target
def gateway_replies(data: bytes, _: Path) -> None:
    """What a provider answers through the gateway: any API, encoding and division into parts."""
    random = Random(data)
    headers = [
        (b"content-type", random.choice([b"text/event-stream", b"application/json"])),
        (b"content-encoding", random.choice([b"identity", b"gzip", b"deflate"])),
    ]
    reader = ReplyReader(random.choice(["messages", "chat", "responses"]), whole=random.random() < 0.5)
    reader.start(200, headers)
    rest = data
    while rest:
        size = random.randint(1, 2_000)
        reader.feed(rest[:size])
        rest = rest[size:]
    reader.finish()
    assert reader.usage is None or reader.usage.prompt >= 0
    assert reader.reply is None or reader.whole


@target
def text_calls(data: bytes, _: Path) -> None:
    """Calls that a model without tools wrote as text."""
    schema: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}, "a": {"type": "array"}}}
    parse_text_calls(text_of(data), [{"name": "Read", "input_schema": schema}])


@target
def web_pages(data: bytes, _: Path) -> None:
    page_text(text_of(data))


@target
def media(data: bytes, _: Path) -> None:
    """Pictures and PDF files; an error of Python says which ones cannot be shown."""
    with contextlib.suppress(ValueError):
        block = media_block(data)
        media_facts(block)
        estimate_blocks((block,))


@target
def message_content(data: bytes, _: Path) -> None:
    with contextlib.suppress(ValueError, RecursionError):
        estimate_blocks(parse_content(json.loads(data)))


@target
def simulator_http(data: bytes, _: Path) -> None:
    async def send() -> None:
        async with Simulator() as sim:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(sim.url.rpartition(":")[2]))
            writer.write(data)
            writer.write_eof()
            with contextlib.suppress(ConnectionError):
                answered = await reader.read(-1)
                assert b"could not answer" not in answered, answered[-300:]
            writer.close()

    loop().run(send())


@target
def simulator_script(data: bytes, _: Path) -> None:
    with contextlib.suppress(ValueError, RecursionError):
        parse_script(json.loads(data))


@target
def frontmatter(data: bytes, _: Path) -> None:
    document = MarkdownFile.parse(data)
    changed = MarkdownFile.parse(document.with_fields(name="New", tags=None))
    read_entry("a.md", data, written=AT)
    assert changed.fields.get("name") == "New" or not changed.has_frontmatter or document.problems


@target
def memory_index(data: bytes, _: Path) -> None:
    index = MemoryIndex.parse(data)
    load_index(data)
    MemoryIndex.parse(index.with_pointer("new.md", "New", "hook"))
    index.without("tea.md")
    merged_index(data, index.with_pointer("new.md", "New", "hook"), b"")


@target
def daily_log(data: bytes, _: Path) -> None:
    read_log("logs/2026/03/2026-03-31.md", data)


@target
def settings(data: bytes, folder: Path) -> None:
    (folder / "home").mkdir(exist_ok=True)
    (folder / ".nacre").mkdir(exist_ok=True)
    environ = {"NACRE_HOME": str(folder / "home"), "HOME": str(folder)}
    # In the repository, where no content may stop a command, and in the home.
    (folder / ".nacre/settings.json").write_bytes(data)
    (folder / "home/settings.json").unlink(missing_ok=True)
    try:
        load(folder, environ, policy_path=folder / "none").require_sound()
    except ConfigError as error:
        raise AssertionError("the file of a repository stops a command") from error
    (folder / ".nacre/settings.json").unlink()
    (folder / "home/settings.json").write_bytes(data)
    load(folder, environ, policy_path=folder / "none").require_sound()


@target
def permission_rules(data: bytes, _: Path) -> None:
    for line in text_of(data).split("\n"):
        with contextlib.suppress(ConfigError):
            rule = parse_rule(line, "deny", "settings.json")
            if rule.pattern and rule.names("Read"):
                for path in ("src/a[1]/b.py", "src/" + "a" * 200):
                    meets_path(rule.pattern, Path("/project") / path, root=Path("/project"))


@target
def hook_output(data: bytes, _: Path) -> None:
    for event in EVENTS:
        answer(event, HookRun(command="check", exit_code=0, stdout=text_of(data)))
        answer(event, HookRun(command="check", exit_code=2, stderr=text_of(data)))


@target
def hook_settings(data: bytes, _: Path) -> None:
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(data)
        if isinstance(value, dict):
            parse_hooks(value)


@target
def hook_input(data: bytes, folder: Path) -> None:
    parse_input("UserPromptSubmit", data, {"HOME": str(folder)})


@target
def shell_lines(data: bytes, _: Path) -> None:
    explain(text_of(data))
    programs(text_of(data))


@target
def secrets(data: bytes, _: Path) -> None:
    text = text_of(data)
    find_secrets(text)
    redact(text)


@target
def text_checks(data: bytes, _: Path) -> None:
    """What a save compares with the words of the person and with those from outside."""
    text, said, shown = (text_of(data[at::3]) if at else text_of(data) for at in range(3))
    origin_of(text, by_user=[said], by_tools=[shown, text])
    is_supported_by(text[:2_000], [said[:2_000], text[:2_000]])
    repeats_value(text, assigned_values(shown))
    pointer_text(text)


@target
def purge_values(data: bytes, _: Path) -> None:
    """A text of which one part is the memory of which every trace goes: each value costs a pattern."""
    text = text_of(data)
    start = len(data) % 5 * 50
    traces = Traces("a.md", [text[start : start + 100]])
    cleaned = traces.without(text)
    assert traces.without(cleaned) == cleaned
    FinalScan(traces.rare_words, traces.probes).is_in(data)


@target
def letters(data: bytes, _: Path) -> None:
    for line in data.splitlines(keepends=True):
        with contextlib.suppress(NacreError):
            letter.parse(line)


@target
def mailbox(data: bytes, folder: Path) -> None:
    for left in folder.iterdir():
        left.unlink()
    path = folder / "ada.jsonl"
    path.write_bytes(data)
    path.chmod(0o600)
    folder.chmod(0o700)
    peek(path)
    inbox = Mailbox(path)
    inbox.settle(inbox.waiting().position)


@target
def team_known_versions(data: bytes, _: Path) -> None:
    with contextlib.suppress(ValueError):  # documented: no such file at all
        parse_known(data)


@target
def team_state(data: bytes, folder: Path) -> None:
    (folder / STATE_FILE).write_bytes(data)
    read_state(folder, "git@example.org:team.git")


@target
def team_files(data: bytes, _: Path) -> None:
    sharing_objection("tea.md", data)
    content_objection(data)


@target
def team_tasks(data: bytes, folder: Path) -> None:
    (folder / TASKS).write_bytes(data)
    TeamTasks(folder).list()
    TeamTasks(folder).add("One more")


@target
def git_listing(data: bytes, _: Path) -> None:
    list(_rows(data))


@target
def git_index(data: bytes, folder: Path) -> None:
    parse_index(data, str(folder))


@target
def git_objects(data: bytes, folder: Path) -> None:
    """A loose object, as commit, tree and blob."""
    name = "ab" * 20
    place = folder / "objects/ab" / name[2:]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    repository = GitRepository(folder)
    repository.has(name)
    repository.read(name)


@target
def git_packs(data: bytes, folder: Path) -> None:
    """A pack behind its index: the first four bytes say how long the index is."""
    length = int.from_bytes(data[:4]) % 4_096
    index = folder / "objects/pack/pack-1.idx"
    index.parent.mkdir(parents=True, exist_ok=True)
    index.write_bytes(data[4 : 4 + length])
    index.with_suffix(".pack").write_bytes(data[4 + length :])
    names = GitPack(index).names()[:20]
    repository = GitRepository(folder)
    for name in names:
        with contextlib.suppress(NacreError):
            repository.read(name)


@target
def plans(data: bytes, folder: Path) -> None:
    (folder / "plan.md").write_bytes(data)
    loop().run(Plan(folder).read())


@target
def skills(data: bytes, folder: Path) -> None:
    (folder / "tea").mkdir(exist_ok=True)
    (folder / "tea/SKILL.md").write_bytes(data)
    for skill in find_skills([SkillFolder(folder)]).skills.values():
        skill_text(skill)


@target
def agent_types(data: bytes, folder: Path) -> None:
    parse_type(data, folder / "reviewer.md", [])


@target
def instructions(data: bytes, _: Path) -> None:
    globs, text = split_head(text_of(data))
    includes_in(without_comments(text))
    is_any(Path("/project/src/a.py"), tuple(f"/project/{glob}" for glob in globs))


@target
def memory_packs(data: bytes, folder: Path) -> None:
    for name in ("pack.tar.gz", "export.json", "export.jsonl"):
        (folder / name).write_bytes(data)
        with contextlib.suppress(NacreError):
            read_batch(folder / name)


@target
def dates(data: bytes, _: Path) -> None:
    text = text_of(data)
    resolve_dates(text, AT, UTC)
    relative_phrases(text)
    full_dates(text)
    without_dates(text)
    date_ranges(text, date(2026, 3, 31))


@target
def mcp_messages(data: bytes, _: Path) -> None:
    _handshake(data)
    mended(data)
    with contextlib.suppress(ValidationError):
        to_outcome(mcp_types.CallToolResult.model_validate_json(data), max_tokens=100)


@target
def mcp_servers(data: bytes, _: Path) -> None:
    with contextlib.suppress(ValueError, RecursionError):
        value: Any = json.loads(data)
        if isinstance(value, dict):
            parse_servers(value, environ={})


@target
def model_texts(data: bytes, _: Path) -> None:
    """Text that a model wrote: summaries, notes, and what is passed on to another model."""
    text = text_of(data)
    summarise.parse(text)
    is_by_rule(text)
    neutralise(text)
    estimate_text(text)
