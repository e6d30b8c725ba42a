"""Microsoft's agent-framework: `ContextWindowCompactionStrategy` with its defaults.

Tool results go at half of the budget, the oldest groups at four fifths of it; no model is asked.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from bench.replay.peer import Blocks, Conversation, Room, other_text, parts, result_text
from nacre.messages.blocks import JsonObject


class Tokens:
    """The tokenizer it is given: a message as it writes it down, counted by the books."""

    def __init__(self, room: Room) -> None:
        self._room = room

    def count_tokens(self, text: str) -> int:
        return sum(self._part(part) for part in json.loads(text)["contents"])

    def _part(self, part: JsonObject) -> int:
        match part["type"]:
            case "function_call":
                return self._room.tokens(
                    {
                        "type": "tool_use",
                        "id": part["call_id"],
                        "name": part["name"],
                        "input": part["arguments"],
                    }
                )
            case "function_result":
                return self._room.tokens_of(str(part["result"]))
            case _:
                return self._room.tokens_of(str(part.get("text") or ""))


class ContextWindow:
    """Marks what is left out on the messages themselves, so that it stays out."""

    def __init__(self, room: Room) -> None:
        import agent_framework._compaction as compaction

        logging.getLogger("agent_framework").setLevel(logging.ERROR)
        self._apply = compaction.apply_compaction
        self._tokenizer = Tokens(room)
        self._strategy = compaction.ContextWindowCompactionStrategy(
            max_context_window_tokens=room.window,
            max_output_tokens=room.max_output,
            tokenizer=self._tokenizer,
        )
        self._blocks = Blocks()
        self.compactions = 0
        self._messages: list[Any] = []
        self._loop = asyncio.new_event_loop()

    def take(self, message: JsonObject) -> None:
        from agent_framework import Content, Message

        role = str(message["role"])
        made: list[Any] = []
        for block in parts(message):
            match block["type"]:
                case "tool_result":
                    call, text = str(block["tool_use_id"]), result_text(block)
                    self._blocks.keep("result", call, text, block)
                    self._messages.append(Message("tool", [Content.from_function_result(call, result=text)]))
                case "tool_use":
                    call = str(block["id"])
                    self._blocks.keep("call", call, "", block)
                    name: Any = block["name"]
                    arguments: Any = block["input"]
                    made.append(Content.from_function_call(call, name, arguments=arguments))
                case "thinking":
                    text = str(block.get("thinking", ""))
                    self._blocks.keep("thinking", "", text, block)
                    made.append(Content.from_text_reasoning(text=text))
                case kind:
                    text = str(block["text"]) if kind == "text" else other_text(block)
                    self._blocks.keep("text", "", text, block)
                    made.append(Content.from_text(text))
        if made:
            self._messages.append(Message(role, made))

    def sends(self) -> list[JsonObject]:
        kept = self._loop.run_until_complete(
            self._apply(self._messages, strategy=self._strategy, tokenizer=self._tokenizer)
        )
        talk = Conversation()
        for message in kept:
            role = "assistant" if message.role == "assistant" else "user"
            for content in message.contents:
                block = self._block(content)
                if block is not None:
                    talk.add(role, block)
        return talk.messages

    def _block(self, content: Any) -> JsonObject | None:
        match content.type:
            case "function_result":
                return self._blocks.result(content.call_id, str(content.result))
            case "function_call":
                return self._blocks.call(content.call_id)
            case "text_reasoning":
                return self._blocks.thinking(content.text or "")
            case _:
                return self._blocks.text(content.text or "")
