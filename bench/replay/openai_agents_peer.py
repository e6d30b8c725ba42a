"""OpenAI Agents SDK: `ToolOutputTrimmer` with its defaults, applied to every call; it knows no window."""

from __future__ import annotations

import json
from typing import Any

from bench.replay.peer import Blocks, Conversation, Room, other_text, parts, result_text
from nacre.messages.blocks import JsonObject


class Trimmer:
    """Outputs before the last two user turns that are longer than 500 characters are cut to 200."""

    def __init__(self, room: Room) -> None:
        from agents.extensions import ToolOutputTrimmer

        self._trim: Any = ToolOutputTrimmer()
        self._blocks = Blocks()
        self.compactions = 0
        self._items: list[Any] = []

    def take(self, message: JsonObject) -> None:
        for block in parts(message):
            match block["type"]:
                case "tool_result":
                    call, text = str(block["tool_use_id"]), result_text(block)
                    self._blocks.keep("result", call, text, block)
                    item = {"type": "function_call_output", "call_id": call, "output": text}
                case "tool_use":
                    call = str(block["id"])
                    self._blocks.keep("call", call, "", block)
                    arguments = json.dumps(block["input"])
                    item = {
                        "type": "function_call",
                        "call_id": call,
                        "name": block["name"],
                        "arguments": arguments,
                    }
                case "thinking":
                    text = str(block.get("thinking", ""))
                    self._blocks.keep("thinking", "", text, block)
                    item = {"type": "reasoning", "summary": [], "content": text}
                case kind:
                    text = str(block["text"]) if kind == "text" else other_text(block)
                    self._blocks.keep("text", "", text, block)
                    item = {"role": message["role"], "content": text}
            self._items.append(item)

    def sends(self) -> list[JsonObject]:
        from agents.run import CallModelData, ModelInputData

        given: Any = CallModelData(
            model_data=ModelInputData(input=list(self._items), instructions=""),
            agent=None,  # type: ignore[arg-type]
            context=None,
        )
        talk = Conversation()
        for item in self._trim(given).input:
            match item.get("type"):
                case "function_call_output":
                    talk.add("user", self._blocks.result(item["call_id"], item["output"]))
                case "function_call":
                    talk.add("assistant", self._blocks.call(item["call_id"]))
                case "reasoning":
                    if (block := self._blocks.thinking(item["content"])) is not None:
                        talk.add("assistant", block)
                case _:
                    talk.add(item["role"], self._blocks.text(item["content"]))
        return talk.messages
