"""Made-up recordings: steps of any shape, without a file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from nacre.devtools.replay.schema import Recorded, ReplayStep
from nacre.messages.blocks import Block, Text, Thinking, ToolCall, ToolResult
from nacre.messages.records import ReplyFacts, Said

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
WORDS = "the lists of what is to be done and who does it "


def asked(
    number: int,
    heard: Sequence[Block],
    reply: Sequence[Block],
    *,
    at: float,
    output_tokens: int = 50,
) -> ReplayStep:
    """One step, so many seconds after the start."""
    moment = START + timedelta(seconds=at)
    said = Said(id=f"heard-{number}", at=moment, role="user", blocks=tuple(heard))
    facts = ReplyFacts(id=f"msg-{number}", model="claude-opus-5-5")
    answer = Said(id=f"reply-{number}", at=moment, role="assistant", blocks=tuple(reply), reply=facts)
    is_person = any(not isinstance(block, ToolResult) for block in heard)
    return ReplayStep(
        at=moment, heard=(said,), reply=answer, output_tokens=output_tokens, starts_turn=is_person
    )


def rounds(
    count: int,
    *,
    chars: int = 4_000,
    pause: float = 10.0,
    tool: str = "Bash",
    thinks: bool = False,
    turn: int = 4,
) -> Recorded:
    """So many rounds, each with one call; a person speaks again after every `turn` of them."""
    steps = []
    heard: list[Block] = [Text("Tidy up the shop in src/shop.py, please.")]
    at = 0.0
    for number in range(count):
        thought = [Thinking(f"Thought {number}.", "signed")] if thinks else []
        is_last = (number + 1) % turn == 0
        call = ToolCall(f"call-{number}", tool, {"command": f"show part_{number:04d}"})
        reply: list[Block] = [*thought, Text("Next."), *([] if is_last else [call])]
        steps.append(asked(number, heard, reply, at=at))
        result = ToolResult(call.id, (Text(output(number, chars)),))
        heard = [Text(f"Go on with part {number}.")] if is_last else [result]
        at += pause if is_last else 5.0
    return Recorded(name="made-up", steps=tuple(steps), base_tokens=5_000)


def output(number: int, chars: int) -> str:
    """What a tool answers: two names on its first line, then words."""
    head = f"value_{number:04d} in src/part_{number:04d}.py\n"
    return head + (WORDS * (chars // len(WORDS) + 1))[: max(0, chars - len(head))]
