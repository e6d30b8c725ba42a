"""The agent of the public API: a model, instructions, tools and, if wanted, a memory."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from nacre.cache.models import ThinkingLevel, check_thinking
from nacre.clock import SYSTEM_CLOCK
from nacre.context.privacy import LocalOnlyFilter, OriginTracker
from nacre.context.recall import Recall
from nacre.layers.l1_offload.layer import Offload
from nacre.layers.l1_offload.reader import READ_ONLY_ADVICE, result_reader
from nacre.layers.l1_offload.references import READER
from nacre.layers.l2_microcompact.layer import Microcompact
from nacre.layers.l2_microcompact.settings import MicrocompactSettings
from nacre.layers.l4_compact.layer import Compact
from nacre.memory.memory import Memory
from nacre.memory.tools import memory_tools
from nacre.providers.base import Provider
from nacre.providers.choose import build, choose, is_remote_model, require_installed
from nacre.session.agent import UNNAMED, SessionAgent
from nacre.session.log_writer import NullRecordWriter
from nacre.session.session import Base, Session
from nacre.store.tool_results import ToolResultStore
from nacre.tools.base import Function, Tool, as_tools


class Agent(SessionAgent):
    """A model with instructions and tools, and one conversation with it.

    ```
    agent = Agent("anthropic:claude-sonnet-5-5", instructions="Be brief.", tools=[weather])
    result = await agent.run("Do I need an umbrella in Bergen?")
    ```

    Every call of `run` continues the conversation, which lives in memory. The agent has the layers that need
    no setup and no extra model requests: long tool results go to temporary files, which the model can read
    with a tool named `Read`; old results are cleared; a full window is compacted by rule. With a memory,
    relevant entries are attached to prompts, and the model can save, find, correct and delete entries.
    What needs settings or background requests (permissions, sessions on disk, notes, extraction, sub-agents)
    comes with `open_agent`.
    """

    def __init__(  # noqa: PLR0913 - the public entry point; all but the model are given by name
        self,
        model: str | None = None,
        *,
        instructions: str = "",
        tools: Iterable[Tool | Function] = (),
        memory: Memory | str | os.PathLike[str] | None = None,
        provider: Provider | None = None,
        session: Session | None = None,
        thinking: ThinkingLevel | None = None,
    ) -> None:
        """Create an agent; raises `ConfigError` if the model has no provider, key or installed package.

        `model` is `"anthropic:NAME"`, `"openai:NAME"` or `"embedded"`; without one, the keys in the
        environment decide. With `provider`, an object, it is the name that the provider gets. `memory` is a
        `Memory` or a directory. A `session` has its own model, instructions and layers; `tools` must be those
        of its `Base`. `thinking` is `"off"`, `"low"`, `"medium"` or `"high"`; without it the model decides.
        """
        if model is not None and not isinstance(model, str):
            raise TypeError("model takes a name such as 'openai:gpt-6-luna'; write provider=… for an object")
        if not isinstance(instructions, str):
            raise TypeError(f"instructions takes a text, not {type(instructions).__name__}")
        if provider is not None and (isinstance(provider, type) or not hasattr(provider, "stream")):
            raise TypeError("provider takes a provider object; name a model as 'openai:gpt-6-luna'")
        if isinstance(memory, (str, os.PathLike)):
            memory = Memory(memory)
        if memory is not None and not isinstance(memory, Memory):
            raise TypeError(f"memory takes a Memory or a directory, not {type(memory).__name__}")
        if session is not None and (model or instructions or memory or thinking):
            raise TypeError("a session has its own model, instructions, memory and thinking; set them there")
        self.memory = memory
        self._owns_provider = provider is None
        is_remote = True
        named = session.base.model if session else model
        if provider is None:
            choice = choose(named, os.environ)
            require_installed(choice)
            provider = build(choice, os.environ)
            is_remote = is_remote_model(choice, os.environ)
            named = choice.model
        check_thinking(named or UNNAMED, thinking)
        given = as_tools(tools)
        if session is not None and (line := _other_tools(session, given)):
            session.notify(line, "warning")
        if session is None:
            session, given = self._own_session(
                Base(named or UNNAMED, instructions), given, is_remote=is_remote
            )
            session.settings = replace(session.settings, thinking=thinking)
        super().__init__(session, provider, given)

    def _own_session(
        self, base: Base, tools: Sequence[Tool], *, is_remote: bool
    ) -> tuple[Session, list[Tool]]:
        """Return a session in memory with the default layers, and the tools with those that layers need."""
        results = ToolResultStore(None)
        settings = MicrocompactSettings()
        tools = list(tools)
        if tools:
            folder = Path(tempfile.mkdtemp(prefix="nacre-")).resolve()
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            results = ToolResultStore(folder, sync=False)
            settings = replace(settings, tools=settings.tools | {one.name for one in tools if one.clearable})
            if not any(one.name == READER for one in tools):
                tools.append(result_reader(folder))
        origins = OriginTracker()
        writer = NullRecordWriter(SYSTEM_CLOCK.new_id())
        if self.memory is not None:
            tools += memory_tools(self.memory, session=writer.session_id, origins=origins)
        session = Session(Base(base.model, base.system, tools), writer=writer)
        origins.attend(session.transcript)
        origins.notify = session.notify
        session.telemetry.hides_words = not is_remote
        session.add_layers(Offload(results, advice=READ_ONLY_ADVICE), Microcompact(results, settings))
        if self.memory is not None:
            if is_remote:
                session.redactor = LocalOnlyFilter(self.memory.location)
            session.add_layers(Recall(self.memory, clock=session.clock, hides_local=is_remote))
        session.add_layers(Compact())
        return session, tools

    async def close(self) -> None:
        """Stop what is running and close the provider's connections, unless the provider was passed in."""
        await self.cancel()
        recall = self.session.layer(Recall)
        if recall is not None:
            await recall.close()
        if self._owns_provider:
            await self.provider.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _other_tools(session: Session, tools: Sequence[Tool]) -> str:
    """Return a line on tools that the model sees and the agent lacks, or the reverse; may be empty."""
    shown = {str(one["name"]) for one in session.base.tools}
    given = {one.name for one in tools}
    parts = (
        ("the model is shown {} but the agent cannot run {}", sorted(shown - given)),
        ("the model is not shown {}", sorted(given - shown)),
    )
    said = [
        text.format(", ".join(names), "it" if len(names) == 1 else "them") for text, names in parts if names
    ]
    return f"{'; '.join(said)}; pass Agent the tools of the session's Base" if said else ""
