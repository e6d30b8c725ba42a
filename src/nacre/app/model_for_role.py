"""Which model does background work: a fork of the session, or another model from the settings (F7)."""

from __future__ import annotations

from dataclasses import dataclass

from nacre.loop.fork import Fork, ForkResult, ForkTask
from nacre.providers.base import Provider
from nacre.providers.choose import build, choose, leaves_machine
from nacre.session.forks import ForkRunner
from nacre.settings import Settings


@dataclass(frozen=True, slots=True)
class Side:
    """Another model, called like a fork."""

    forks: ForkRunner
    provider: Provider
    model: str

    async def __call__(self, task: ForkTask) -> ForkResult:
        return await self.forks.side(task, self.provider, self.model)


def model_for_role(named: str | None, forks: ForkRunner, settings: Settings) -> Fork | None:
    """Return what runs the tasks of a role; None if only rules are available.

    If the session's model is on this machine, no model elsewhere is asked.
    """
    session = forks.session
    if named is None:
        return forks if forks.has_model else None
    choice = choose(named, settings.environ)
    if choice.model == session.base.model:
        return forks if forks.has_model else None
    if choice.provider_name == "embedded":
        return None
    if session.telemetry.hides_words and leaves_machine(choice, settings.environ):
        session.notify(
            f"{named} is not asked: the conversation is with a model on this machine and stays here"
        )
        return forks if forks.has_model else None
    provider = build(choice, settings.environ)
    forks.background.resources.push_async_callback(provider.close)
    return Side(forks, provider, choice.model)
