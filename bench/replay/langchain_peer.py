"""LangChain: `SummarizationMiddleware` and `ContextEditingMiddleware(ClearToolUsesEdit)`.

The first rewrites the conversation for good, from a prompt of its own that holds at most the newest 4,000
tokens of what is cut (its default). The second is applied to every call anew and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bench.replay.peer import Blocks, Conversation, Room, other_text, parts, result_text
from nacre.messages.blocks import JsonObject


class _Talk:
    """A conversation as LangChain's messages."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.blocks = Blocks()
        self.messages: list[Any] = []
        self.compactions = 0

    def take(self, message: JsonObject) -> None:
        if message["role"] == "assistant":
            self.messages.append(self._reply(message))
            return
        from langchain_core.messages import HumanMessage, ToolMessage

        for block in parts(message):
            if block["type"] == "tool_result":
                call, text = str(block["tool_use_id"]), result_text(block)
                self.blocks.keep("result", call, text, block)
                self.messages.append(ToolMessage(content=text, tool_call_id=call))
            else:
                text = str(block["text"]) if block["type"] == "text" else other_text(block)
                self.blocks.keep("text", "", text, block)
                self.messages.append(HumanMessage(content=text))

    def _reply(self, message: JsonObject) -> Any:
        from langchain_core.messages import AIMessage

        calls = []
        for block in parts(message):
            if block["type"] == "tool_use":
                self.blocks.keep("call", str(block["id"]), "", block)
                calls.append({"name": block["name"], "args": block["input"], "id": block["id"]})
        return AIMessage(content=parts(message), tool_calls=calls)

    def count(self, messages: Iterable[Any]) -> int:
        """Their tokens, by the books."""
        return sum(self._size(one.content) for one in messages)

    def _size(self, content: str | list[Any]) -> int:
        if isinstance(content, str):
            return self.room.tokens_of(content)
        return sum(
            self.room.tokens(part) if isinstance(part, dict) else self.room.tokens_of(part)
            for part in content
        )

    def wire(self, messages: Sequence[Any]) -> list[JsonObject]:
        talk = Conversation()
        for message in messages:
            if message.type == "tool":
                talk.add("user", self.blocks.result(message.tool_call_id, str(message.content)))
            elif message.type == "ai":
                for block in message.content:
                    same = self.blocks.call(block["id"]) if block["type"] == "tool_use" else block
                    talk.add("assistant", same)
            else:
                talk.add("user", self.blocks.text(str(message.content)))
        return talk.messages


class Summarization(_Talk):
    """`SummarizationMiddleware` at the size where nacre compacts; 20 messages stay, its default."""

    def __init__(self, room: Room, keep: tuple[str, int] = ("messages", 20)) -> None:
        super().__init__(room)
        from langchain.agents.middleware import SummarizationMiddleware
        from langchain_core.language_models.fake_chat_models import FakeListChatModel
        from langchain_core.messages import get_buffer_string

        def summed_up(messages: Any) -> str:
            words = get_buffer_string(messages, format="xml")
            room.asked(self._middle.summary_prompt.format(messages=words).rstrip())
            return room.summary

        self._middle: Any = SummarizationMiddleware(
            model=FakeListChatModel(responses=["x"]),
            summarizer=summed_up,
            trigger=("tokens", room.compact_at),
            keep=keep,
            token_counter=self.count,
        )

    def sends(self) -> list[JsonObject]:
        from langchain_core.messages import RemoveMessage

        changed = self._middle.before_model({"messages": self.messages}, None)
        if changed is not None:
            self.compactions += 1
            self.messages = [one for one in changed["messages"] if not isinstance(one, RemoveMessage)]
        return self.wire(self.messages)


class SummarizationWithTail(Summarization):
    """The same with a tail counted in tokens: twenty messages can be more than a small window holds."""

    def __init__(self, room: Room) -> None:
        super().__init__(room, keep=("tokens", room.tail))


class ClearToolUses(_Talk):
    """`ClearToolUsesEdit` from the size where nacre compacts; the newest three results stay."""

    def __init__(self, room: Room) -> None:
        super().__init__(room)
        from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
        from langchain_core.language_models.fake_chat_models import FakeListChatModel

        self._model = FakeListChatModel(responses=["x"])
        self._middle = ContextEditingMiddleware(
            edits=[ClearToolUsesEdit(trigger=room.compact_at)], token_counter=self.count
        )

    def sends(self) -> list[JsonObject]:
        from langchain.agents.middleware.types import ModelRequest, ModelResponse
        from langchain_core.messages import AIMessage

        seen: list[Any] = []

        def handler(request: Any) -> Any:
            seen.extend(request.messages)
            return ModelResponse(result=[AIMessage("ok")])

        request: Any = ModelRequest(
            model=self._model,
            messages=list(self.messages),
            system_message=None,
            tool_choice=None,
            tools=[],
            response_format=None,
            state={"messages": self.messages},
            runtime=None,  # type: ignore[arg-type]
            model_settings={},
        )
        self._middle.wrap_model_call(request, handler)
        return self.wire(seen)
