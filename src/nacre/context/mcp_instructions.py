"""The instructions of MCP servers, attached once, then their changes; a compaction restores them (C21).

Servers are not the person: their text is from outside (M16b).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nacre import prompts
from nacre.messages.blocks import JsonObject
from nacre.messages.draft import Fragment
from nacre.messages.pairing import Item
from nacre.messages.records import Noted, Said
from nacre.messages.untrusted_text import neutralise
from nacre.messages.view import View
from nacre.session.layer import RECORD, WHOLE, Attachment, Layer, digest, digests_in, notes_in_view
from nacre.session.restoration import CUT

MCP_INSTRUCTIONS = "mcp_instructions"
"""Kind of the note with the servers whose instructions the model knows, each with a digest."""
SERVERS = "servers"
MAX_CHARS = 16_000
"""Maximum length of all instructions, about 4,000 tokens: what a compaction restores has room for that."""
SHOWN = prompts.load(__package__, "mcp_instructions")
GONE = prompts.load(__package__, "mcp_instructions_gone")
NAME = "the instructions of MCP servers"
LEFT_OUT = "(Left out: the instructions of the servers before are too long.)"


class McpInstructions(Layer):
    """Tracks which instructions of MCP servers the model knows, and attaches new ones."""

    log_kinds = {MCP_INSTRUCTIONS: "own"}

    def __init__(self, instructions: Mapping[str, str]) -> None:
        """`instructions` by the name of the server; they do not change during a session."""
        self._texts = dict(sorted(instructions.items()))
        self._versions = {name: digest(text) for name, text in self._texts.items()}
        self._kept: list[JsonObject] = []

    async def attach(self, said: Said, view: View) -> Sequence[Attachment]:
        """Attach what the model does not know, and name the servers that are gone."""
        seen = digests_in(notes_in_view(view, MCP_INSTRUCTIONS), SERVERS)
        new = {name: version for name, version in self._versions.items() if seen.get(name) != version}
        gone = [name for name, version in seen.items() if version and name not in self._versions]
        if not (new or gone):
            return []
        parts = [
            prompts.render(GONE, names=", ".join(map(neutralise, gone))) if gone else "",
            self._shown(new) if new else "",
        ]
        facts: JsonObject = {SERVERS: {**new, **dict.fromkeys(gone, "")}}
        return [Attachment(kind=MCP_INSTRUCTIONS, text="\n".join(filter(None, parts)), facts=facts)]

    async def restore(self, kept: Sequence[Item] = ()) -> list[Fragment]:
        """Return all instructions, unless the model still sees them in what a compaction keeps."""
        records = {item.record_id for item in kept}
        notes = [one for one in self.session.view.noted(MCP_INSTRUCTIONS) if one.fact(RECORD) in records]
        self._kept = [one.facts for one in notes]
        if not self._versions or digests_in(notes, SERVERS).items() >= self._versions.items():
            return []
        return [Fragment(kind="other", name=NAME, text=self._shown(self._versions))]

    def carry(self, restored: Sequence[Fragment], summary_id: str) -> list[Noted]:
        """Return notes about the restored instructions, if they were not cut, and about kept ones."""
        facts = self._kept
        if any(one.name == NAME and CUT not in one.text for one in restored):
            facts = [{SERVERS: {**self._versions}, WHOLE: True, RECORD: summary_id}]
        clock = self.session.clock
        return [Noted(id=clock.new_id(), at=clock.now(), kind=MCP_INSTRUCTIONS, facts=one) for one in facts]

    def _shown(self, names: Iterable[str]) -> str:
        """Return the instructions of these servers as text for the model."""
        room = MAX_CHARS
        parts = list[str]()
        for name in names:
            text = neutralise(self._texts[name])
            room -= len(text)
            parts.append(f"{neutralise(name)}:\n{text if room >= 0 else LEFT_OUT}")
        return prompts.render(SHOWN, instructions="\n\n".join(parts))
