"""The letters of one session: everybody's inbox, and everybody's way to the others (A3).

The session itself is `main`; in a teammate's own process it has the teammate's name, and `main` is who leads
the team. Letters to a member of a team lie with the team, all others with the session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nacre.layers.l7_mail.letter import Kind
from nacre.layers.l7_mail.post import Post, SentLetters


class AgentPost(Post):
    """Sends letters, and remembers the one that agrees to shut down."""

    is_leaving = False
    others: Callable[[], Sequence[str]] = tuple
    """Further names, of those whom `*` does not mean: they have ended, and can be woken."""

    def known_names(self) -> Sequence[str]:
        """Everybody, also those who have ended."""
        return list(dict.fromkeys([*super().known_names(), *self.others()]))

    async def send(
        self,
        to: str,
        text: str,
        *,
        summary: str = "",
        kind: Kind = "text",
        approves: bool | None = None,
        answers: str = "",
    ) -> SentLetters:
        """Send a letter; who agrees to shut down ends after its turn."""
        sent = await super().send(to, text, summary=summary, kind=kind, approves=approves, answers=answers)
        self.is_leaving |= kind == "shutdown_response" and approves is True
        return sent
