"""Who plays a role: a fork of the session, or a side agent where the settings name another model (F7)."""

from __future__ import annotations

from dataclasses import dataclass

from nacre.loop.fork import Fork, ForkResult, ForkTask
from nacre.providers.base import Provider
from nacre.providers.choose import build, choose, leaves_machine
from nacre.session.forks import ForkRunner
from nacre.settings import Settings


@dataclass(frozen=True, slots=True)
class Side:
    """Another model, asked as a fork would be."""

    forker: ForkRunner
    provider: Provider
    model: str

    async def __call__(self, task: ForkTask) -> ForkResult:
        return await self.forker.side(task, self.provider, self.model)


def model_for_role(named: str | None, forker: ForkRunner, settings: Settings) -> Fork | None:
    """Whom to send on the tasks of a role for which a model may be named; none where rules must do.

    What must not leave the machine stays: where the session's model is here, no side agent elsewhere is told.
    """
    session = forker.session
    if named is None:
        return forker if forker.has_model else None
    choice = choose(named, settings.environ)
    if choice.model == session.base.model:
        return forker if forker.has_model else None
    if choice.provider_name == "embedded":
        return None
    if session.telemetry.hides_words and leaves_machine(choice, settings.environ):
        session.notify(
            f"{named} is not asked: the conversation is with a model on this machine and stays here"
        )
        return forker if forker.has_model else None
    provider = build(choice, settings.environ)
    forker.background.resources.push_async_callback(provider.close)
    return Side(forker, provider, choice.model)
