"""One server for the length of a session: connected at the start, connected again when it died."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nacre.clock import Clock
from nacre.mcp_client.base import CallOutcome, McpLimits, Server, error_outcome, one_line
from nacre.mcp_client.link import Link, LinkError
from nacre.mcp_client.listing import Listing
from nacre.messages.blocks import JsonObject

FIRST_WAIT_SECONDS = 1.0
"""Before the second restart in a row; the first is free."""
LONGEST_WAIT_SECONDS = 60.0
"""A server that keeps dying is tried once a minute at most."""
SHOWN_NAMES = 5
"""How many tools a notice names; the rest is a number."""


class Connection:
    """The way to one server; its `listing` is the one the session began with and never changes."""

    def __init__(
        self, server: Server, limits: McpLimits, *, clock: Clock, on_notice: Callable[[str], None]
    ) -> None:
        self.name = server.name
        self.listing: Listing | None = None
        self._server = server
        self._limits = limits
        self._clock = clock
        self._on_notice = on_notice
        self._offered: frozenset[str] = frozenset()
        """What the server offers now, which may differ from the listing."""
        self._failures = 0
        self._not_before = 0.0
        self._choosing = asyncio.Lock()
        self._links: list[Link] = []
        self._is_closed = False

    async def start(self) -> None:
        """Connect; a failure is one notice, and the server has no tools."""
        try:
            self.listing = await self._new_link().listing()
        except LinkError as error:
            self._on_notice(f"MCP server {self.name} {error}")
            return
        self._offered = frozenset(offer.name for offer in self.listing.offers)
        for line in self.listing.left_out:
            self._on_notice(line)

    async def call(self, tool: str, arguments: JsonObject) -> CallOutcome:
        """Ask the server, after connecting again if it has died since."""
        try:
            link = await self._living()
            if tool not in self._offered:
                return error_outcome(f"MCP server {self.name} no longer offers {tool}.")
            outcome = await link.call(tool, arguments)
        except LinkError as error:
            return error_outcome(f"MCP server {self.name} is down: it {error}.")
        if link.ended is None and not link.is_suspect:
            self._failures, self._not_before = 0, 0.0
        return outcome

    def stop(self) -> list[asyncio.Task[None]]:
        """Let everything end; the tasks are done when it has."""
        self._is_closed = True
        for link in self._links:
            link.stop("was closed", at_once=self.listing is None)
        return [link.task for link in self._links]

    def kill(self) -> None:
        """End everything without grace."""
        for link in self._links:
            link.kill()

    async def _living(self) -> Link:
        # One at a time: ten calls that find the server dead must not start it ten times.
        async with self._choosing:
            link = self._links[-1]
            if link.is_suspect and link.ended is None:
                if await link.is_answering():
                    link.is_suspect = False
                else:
                    link.stop("no longer answered", at_once=True)
            if link.is_over:
                link = self._restarted(link)
            listing = await link.listing()
            if link.is_new:
                link.is_new = False
                self._compare(listing)
            return link

    def _restarted(self, dead: Link) -> Link:
        now = self._clock.seconds()
        why = dead.ended or dead.why
        if self._is_closed:
            raise LinkError("was closed")
        if now < self._not_before:
            raise LinkError(f"{why}; it can be tried again in {self._not_before - now:.0f} s")
        self._not_before = now + min(FIRST_WAIT_SECONDS * 2**self._failures, LONGEST_WAIT_SECONDS)
        self._failures += 1
        return self._new_link()

    def _new_link(self) -> Link:
        # A dead one may still be tidying up; it is kept until it has, so that closing can wait for it.
        self._links = [link for link in self._links if not link.task.done()]
        link = Link(self._server, self._limits, on_notice=self._on_notice, on_listing=self._compare)
        self._links.append(link)
        return link

    def _compare(self, now: Listing) -> None:
        """Note how the offer changed; the session keeps the definitions it began with (C31b)."""
        offered = frozenset(offer.name for offer in now.offers)
        added, removed = offered - self._offered, self._offered - offered
        self._offered = offered
        told = frozenset(offer.name for offer in self.listing.offers) if self.listing else frozenset()
        if added - told:
            names = _names(added - told)
            self._on_notice(f"MCP server {self.name} now offers {names}; usable from the next session on")
        if added & told:
            self._on_notice(f"MCP server {self.name} offers {_names(added & told)} again")
        if removed & told:
            self._on_notice(f"MCP server {self.name} no longer offers {_names(removed & told)}")


def _names(tools: frozenset[str]) -> str:
    names = sorted(tools)
    more = len(names) - SHOWN_NAMES
    shown = ", ".join(one_line(name, chars=64) for name in names[:SHOWN_NAMES])
    return f"{shown} and {more} more" if more > 0 else shown
