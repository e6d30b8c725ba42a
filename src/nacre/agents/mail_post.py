"""One agent's way to the others, which knows when the agent has agreed to end (A4)."""

from __future__ import annotations

from nacre.layers.l7_mail.letter import Kind
from nacre.layers.l7_mail.post import Post, Sent


class AgentPost(Post):
    """Sends letters, and remembers the one that agrees to shut down."""

    is_leaving = False

    async def send(
        self,
        to: str,
        text: str,
        *,
        summary: str = "",
        kind: Kind = "text",
        approves: bool | None = None,
        answers: str = "",
    ) -> Sent:
        """Send a letter; who agrees to shut down ends after its turn."""
        sent = await super().send(to, text, summary=summary, kind=kind, approves=approves, answers=answers)
        self.is_leaving |= kind == "shutdown_response" and approves is True
        return sent
