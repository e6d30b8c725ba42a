"""Templates of the console, and how values are written on a page."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from functools import cache
from pathlib import Path
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from nacre.clock import Clock
from nacre.formatting import human_age, human_count, shorten, visible
from nacre.server.console.markdown import rendered

HERE = Path(__file__).parent
PREFIX = "/console"
STATIC = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}
_KEY = re.compile(r" \(key \w+\)$")
"""The audit log names the key of a write; a page of changes needs the person only."""
_SEE_OPERATION = re.compile(r"; see GET /\S+$")
DIFF_CLASSES = {"+": "add", "-": "del", "@": "hunk"}


@cache
def static_file(name: str) -> tuple[bytes, str]:
    """Return a file that pages load, and the digest that its address carries."""
    data = (HERE / "static" / name).read_bytes()
    return data, hashlib.sha256(data).hexdigest()[:12]


def environment(clock: Clock) -> Environment:
    """Return the templates; every value is escaped."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "ago": lambda at: ago(moment(at), clock.now()) if at else "–",
        "clip": shorten,
        "count": human_count,
        "diff": diff_lines,
        "markdown": rendered,
        "number": lambda value: f"{value:,}",
        "percent": percent,
        "reason": lambda text: _KEY.sub("", text),
        "signed": lambda value: f"{value:+.1f}".replace("-", "−"),
        "space_name": space_name,
        "time": lambda at: f"{moment(at).astimezone():%Y-%m-%d %H:%M}" if at else "–",
        "clock": lambda at: f"{moment(at).astimezone():%H:%M:%S}" if at else "–",
        "usd": usd,
        "duration": duration,
        "visible": visible,
    }
    made.globals |= {"static": lambda name: f"{PREFIX}/static/{name}?{static_file(name)[1]}"}
    return made


def moment(at: str | datetime) -> datetime:
    """Return a time with its zone."""
    found = at if isinstance(at, datetime) else datetime.fromisoformat(at)
    return found if found.tzinfo else found.astimezone()


def said(error: Exception) -> str:
    """Return an error of an operation as a page says it: without the operation of the API that lists more."""
    text = _SEE_OPERATION.sub("", str(error))
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "?")) else ".")


def ago(then: datetime, now: datetime) -> str:
    """Return how long ago something was, or its date when that was long ago."""
    age = human_age(then, now)
    return age if age == "now" or "-" in age else f"{age} ago"


def percent(share: float | None) -> str:
    """Return a share in whole percent; a small one is not written as none."""
    if share is None:
        return "–"
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def space_name(name: str) -> str:
    """Return a space as a person says it."""
    kind, _, title = name.partition(":")
    return f"{kind.capitalize()} {visible(title)}" if title else "You, everywhere"


def usd(value: float | None) -> str:
    """Return an amount of money with as many decimals as it needs; a dash if it is not known."""
    if value is None:
        return "–"
    if not value:
        return "$0"
    return f"${value:,.2f}" if abs(value) >= 1 else f"${value:.3f}" if abs(value) >= 0.01 else f"${value:.4f}"


def duration(seconds: float | None) -> str:
    """Return a span of time in its two largest units."""
    if seconds is None:
        return "–"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min"
    if whole < 86_400:
        return f"{whole // 3_600} h {whole % 3_600 // 60} min"
    return f"{whole // 86_400} d"


def diff_lines(text: str) -> list[tuple[str, str]]:
    """Return the lines of a unified diff without its heading, each with its class."""
    lines = text.splitlines()
    if lines[:1] and lines[0].startswith("--- "):
        lines = lines[2:]
    return [(DIFF_CLASSES.get(line[:1], ""), visible(line)) for line in lines]


def address(path: str, space: str = "", **query: object) -> str:
    """Return the address of a page; parameters without a value are left out."""
    given = {name: str(value) for name, value in query.items() if value not in {None, "", False}}
    if space:
        given = {"space": space, **given}
    return f"{PREFIX}{quote(path)}" + (f"?{urlencode(given)}" if given else "")
