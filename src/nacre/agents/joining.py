"""Who takes part in a session's messages: tellers, filters, and riders in the order the model reads them."""

from __future__ import annotations

from nacre.agents.announcing import Announcer
from nacre.agents.dating import Calendar
from nacre.agents.hands import Hands
from nacre.agents.knowing import Known
from nacre.agents.privacy import StaysHere
from nacre.agents.session import Session


def join(session: Session, known: Known, hands: Hands, *, leaves: bool) -> None:
    """Tie everything that was opened for a session to it; `leaves` as in `recollect`."""
    session.tellers.append(hands.notices)
    known.witness.attend(session.transcript)
    directories = [memory.location.directory for memory in known.memories]
    if leaves and directories:
        session.filters.append(StaysHere(*directories))
    session.riders.append(Calendar(session.clock, session.view))
    if known.instructions is not None:
        session.riders.append(Announcer(known.instructions, hands.workspace, session.view))
