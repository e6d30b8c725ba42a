"""`nacre sim`: a provider simulator on loopback with the real prompt-cache rules; Ctrl-C ends it, exit code
0."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions, find_session, load_settings
from nacre.cli.output import printable
from nacre.messages.usage import Usage

if TYPE_CHECKING:
    from nacre.devtools.sim import Exchange, ScriptedReply, SimSettings, Simulator
    from nacre.messages.blocks import JsonObject
    from nacre.settings import Settings

MAX_PORT = 65_535
LOOK_SECONDS = 1.0
"""Maximum delay until a full or emptied log is read again; a growing one wakes us at once."""


@click.command()
@click.option(
    "--port", type=click.IntRange(0, MAX_PORT), default=0, metavar="N", help="Default: any free port."
)
@click.option("--script", type=click.Path(path_type=Path), metavar="FILE", help="Replies as JSON or YAML.")
@click.option("--session", metavar="FILE|ID", help="Reply as in a recorded session.")
@click.option(
    "--embedded", is_flag=True, help="Reply with the embedded engine when no scripted reply is left."
)
@click.option(
    "--clock",
    type=click.Choice(["real", "manual"]),
    default="real",
    show_default=True,
    help="manual: time passes only by POST /sim/clock.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object per line: ready, each request, the total."
)
@click.pass_obj
def sim(options: RunOptions, /, **given: str | int | Path | None) -> None:
    """Run the provider simulator until Ctrl-C.

    It implements Anthropic's Messages API and OpenAI's chat completions and Responses on loopback, simulates
    the prompt cache by the providers' rules, and prints for every request what was read, written and paid. It
    costs nothing.
    """
    from nacre.devtools.sim import SimSettings

    asked = _SimOptions(**given)  # type: ignore[arg-type]
    settings = SimSettings(
        port=asked.port,
        script=asked.script,
        replies=tuple(_recorded(load_settings(options), asked.session)) if asked.session else (),
        real_clock=asked.clock == "real",
    )
    with contextlib.suppress(KeyboardInterrupt):  # where signals cannot be caught, Ctrl-C still ends it well
        asyncio.run(_run(settings, embedded=asked.embedded, as_json=asked.as_json))


@dataclass(frozen=True, slots=True, kw_only=True)
class _SimOptions:
    """Options as click passes them."""

    port: int
    script: Path | None
    session: str | None
    embedded: bool
    clock: str
    as_json: bool


def _recorded(settings: Settings, wanted: str) -> list[ScriptedReply]:
    from nacre.devtools.sim import replies_from_messages
    from nacre.errors import TranscriptError
    from nacre.inspect.sources import open_source
    from nacre.messages.foreign import read_foreign
    from nacre.messages.records import Said
    from nacre.messages.wire import render_blocks

    path = Path(wanted) if Path(wanted).exists() or "/" in wanted else find_session(settings, wanted)
    with open_source(path) as source:
        sessions = read_foreign(source.lines, name=path.name)
    said = [record for record in sessions[0].records if isinstance(record, Said) and record.aside is None]
    replies = replies_from_messages(
        {
            "role": "assistant",
            "id": record.reply.id if record.reply else None,
            "stop_reason": record.reply.stop_reason if record.reply else None,
            "content": render_blocks(record.blocks),
        }
        for record in said
        if record.role == "assistant"
    )
    if not replies:
        raise TranscriptError(f"{path} contains no replies; choose another session")
    return replies


@dataclass(frozen=True, slots=True)
class _Total:
    """Totals of all requests."""

    requests: int = 0
    refused: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0

    def after(self, exchange: Exchange) -> _Total:
        return _Total(
            self.requests + 1,
            self.refused + (exchange.refusal is not None),
            self.usage + exchange.usage,
            self.cost_usd + (exchange.cost_usd or 0.0),
        )


async def _run(settings: SimSettings, *, embedded: bool, as_json: bool) -> None:
    from nacre.devtools.sim import Script, SimClock, Simulator, read_script, replies_from_provider
    from nacre.providers.embedded.provider import EmbeddedProvider

    script = read_script(settings.script) if settings.script else Script()
    script = replace(script, replies=[*settings.replies, *script.replies])
    source = replies_from_provider(EmbeddedProvider()) if embedded else None
    clock = SimClock(real=settings.real_clock)
    async with Simulator(script, clock=clock, source=source, settings=settings) as simulator:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, stop.set)
        url = simulator.url
        replies = len(script.replies)
        if as_json:
            _say_line({"event": "ready", "url": url, "openai_url": f"{url}/v1", "replies": replies})
        else:
            then = "the embedded engine answers" if embedded else "it says that its script is exhausted"
            count = f"{replies:,} recorded or scripted repl{'y' if replies == 1 else 'ies'}, then "
            print(
                f"The simulator listens on {url} (Ctrl-C ends it).\n\n"
                f"  nacre, Anthropic SDK:  ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=any\n"
                f"  OpenAI SDK:            OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=any\n"
                f"  try it:                ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=any nacre -p hello\n\n"
                f"Replies: {count if replies else ''}{then}.",
                flush=True,
            )
        total = await _follow(simulator, stop, as_json=as_json)
    if as_json:
        _say_line(
            {
                "event": "total",
                "requests": total.requests,
                "refused": total.refused,
                "usage": {**asdict(total.usage)},
                "hit_rate": round(total.usage.hit_rate, 4),
                "cost_usd": total.cost_usd,
            }
        )
        return
    refused = f" ({total.refused:,} refused)" if total.refused else ""
    print(
        f"\n{total.requests:,} request{'s' * (total.requests != 1)}{refused}, "
        f"{total.usage.hit_rate:.0%} of the prompts read from the cache, ${total.cost_usd:.4f} as the "
        "provider would bill it."
    )


async def _follow(simulator: Simulator, stop: asyncio.Event, *, as_json: bool) -> _Total:
    """Print every request once until stopped; returns the totals."""
    total = _Total()
    last = None
    stopping = asyncio.create_task(stop.wait(), name="stop")
    while not stop.is_set():
        arrival = asyncio.create_task(simulator.arrivals(len(simulator.log) + 1), name="arrival")
        await asyncio.wait({arrival, stopping}, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        arrival.cancel()
        log = simulator.log
        known = next((i for i in range(len(log) - 1, -1, -1) if log[i] is last), -1)
        for exchange in log[known + 1 :]:
            total = total.after(exchange)
            last = exchange
            _say_exchange(total.requests, exchange, as_json=as_json)
    await stopping
    return total


def _say_exchange(number: int, exchange: Exchange, *, as_json: bool) -> None:
    model = str(exchange.body.get("model") or "?")
    usage = exchange.usage
    if as_json:
        _say_line(
            {
                "event": "request",
                "number": number,
                "model": model,
                "route": exchange.route,
                "status": exchange.status,
                "usage": {**asdict(usage)},
                "cost_usd": exchange.cost_usd,
                "error": exchange.refusal.message if exchange.refusal else None,
                "fault": exchange.fault,
            }
        )
        return
    if exchange.refusal is not None:
        print(
            printable(f"{number:4d}  {model}  refused {exchange.status}: {exchange.refusal.message}"),
            flush=True,
        )
        return
    price = "price unknown" if exchange.cost_usd is None else f"${exchange.cost_usd:.6f}"
    fault = f"  fault: {exchange.fault}" if exchange.fault else ""
    print(
        f"{number:4d}  {printable(model)}  read {usage.cache_read:,}  written {usage.cache_write:,}  "
        f"input {usage.input:,}  output {usage.output:,}  {price}{fault}",
        flush=True,
    )


def _say_line(value: JsonObject) -> None:
    """Print one object per line and flush: programs wait for the address."""
    print(json.dumps(value), flush=True)
