"""pydantic-ai-harness: `TieredCompaction`: old results go first, then an agent of its own sums up."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

from bench.replay.peer import Blocks, Conversation, Room, other_text, parts, result_text
from nacre.messages.blocks import JsonObject


class Tiered:
    """Compacts at the size where nacre does, down to half of it; what it rewrites stays rewritten."""

    def __init__(self, room: Room) -> None:
        from pydantic_ai.messages import ModelResponse, TextPart
        from pydantic_ai.models.function import FunctionModel
        from pydantic_ai_harness.compaction import ClearToolResults, SummarizingCompaction, TieredCompaction

        def summed_up(messages: Any, info: Any) -> Any:
            room.asked(_words(messages))
            return ModelResponse(parts=[TextPart(room.summary)])

        self._room = room
        self._model = FunctionModel(summed_up)
        self._strategy = TieredCompaction(
            tiers=[
                ClearToolResults(max_tokens=1, keep_pairs=3),
                SummarizingCompaction(max_messages=1, keep_tokens=room.tail, tokenizer=room.tokens_of),
            ],
            target_tokens=room.compact_at // 2,
            tokenizer=room.tokens_of,
        )
        self._blocks = Blocks()
        self._messages: list[Any] = []
        self._names: dict[str, str] = {}
        self._size = 0
        self.compactions = 0
        self._loop = asyncio.new_event_loop()

    def take(self, message: JsonObject) -> None:
        from pydantic_ai.messages import (
            ModelRequest,
            ModelResponse,
            TextPart,
            ThinkingPart,
            ToolCallPart,
            ToolReturnPart,
            UserPromptPart,
        )

        made: list[Any] = []
        for block in parts(message):
            kind = block["type"]
            if kind == "tool_result":
                call, text = str(block["tool_use_id"]), result_text(block)
                self._blocks.keep("result", call, text, block)
                made.append(ToolReturnPart(self._names.get(call, "tool"), text, call))
            elif kind == "tool_use":
                call = str(block["id"])
                self._names[call] = str(block["name"])
                self._blocks.keep("call", call, "", block)
                made.append(ToolCallPart(str(block["name"]), block["input"], call))
            elif kind == "thinking":
                text = str(block.get("thinking", ""))
                self._blocks.keep("thinking", "", text, block)
                made.append(ThinkingPart(text))
            else:
                text = str(block["text"]) if kind == "text" else other_text(block)
                self._blocks.keep("text", "", text, block)
                made.append(TextPart(text) if message["role"] == "assistant" else UserPromptPart(text))
            self._size += self._room.tokens(block)
        self._messages.append(ModelResponse(made) if message["role"] == "assistant" else ModelRequest(made))

    def sends(self) -> list[JsonObject]:
        from pydantic_ai_harness.compaction import compact_now

        if self._size > self._room.compact_at:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._messages = self._loop.run_until_complete(
                    compact_now(self._strategy, self._messages, model=self._model)
                )
            self.compactions += 1
            self._size = sum(self._room.tokens(block) for message in self._wire() for block in parts(message))
        return self._wire()

    def _wire(self) -> list[JsonObject]:
        talk = Conversation()
        for message in self._messages:
            role = "assistant" if message.kind == "response" else "user"
            for part in message.parts:
                block = self._block(part)
                if block is not None:
                    talk.add(role, block)
        return talk.messages

    def _block(self, part: Any) -> JsonObject | None:
        match part.part_kind:
            case "tool-return":
                return self._blocks.result(part.tool_call_id, str(part.content))
            case "tool-call":
                return self._blocks.call(part.tool_call_id, part.tool_name, part.args)
            case "thinking":
                return self._blocks.thinking(part.content)
            case _:
                return self._blocks.text(str(part.content))


def _words(messages: Any) -> str:
    """Everything the summing agent was sent."""
    told = [message.instructions or "" for message in messages if message.kind == "request"]
    return "\n".join([*told, *(str(part.content) for message in messages for part in message.parts)])
