"""How much of what a step used was still in view, and what it takes to fetch the rest again (P7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from nacre.cache.anthropic_state import Rendered
from nacre.replay.needs import Facts, Need, Source, facts_of
from nacre.replay.schema import Used


class Reading:
    """What blocks say, by their digest: worked out once, whichever policy shows them."""

    def __init__(self) -> None:
        self._known: dict[bytes, Facts] = {}

    def facts(self, block: Rendered) -> Facts:
        found = self._known.get(block.digest)
        if found is None:
            found = self._known[block.digest] = facts_of(block.wire)
        return found


class Retention:
    """Follows the view of one session under one policy, request by request."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._shown: list[Facts] = []
        self._pairs: Counter[Hashable] = Counter()
        self._identifiers: Counter[Hashable] = Counter()
        self._fetched: set[int] = set()
        """Hidden blocks that were paid for and have not been seen in view since."""

    def see(self, blocks: Sequence[Rendered], shared: int) -> None:
        """The view is now these blocks, of which so many stand as they stood; the base says nothing."""
        for facts in self._shown[shared:]:
            _take_away(self._pairs, facts.pairs)
            _take_away(self._identifiers, facts.identifiers)
        del self._shown[shared:]
        for block in blocks[shared:]:
            facts = self._reading.facts(block) if block.level == "messages" else NOTHING
            self._shown.append(facts)
            self._pairs.update(facts.pairs)
            self._identifiers.update(facts.identifiers)

    def check(self, need: Need) -> tuple[Used, list[Source]]:
        """What of a step's needs is in view, and the hidden blocks that have to be fetched for the rest."""
        hidden: dict[int, Source] = {}
        pairs = edits = 0
        for pair, source in need.pairs:
            is_there = pair in self._pairs
            pairs += is_there
            self._settle(source, hidden, is_there=is_there)
        for text, source in need.edits:
            is_there = any(text in facts.text for facts in reversed(self._shown))
            edits += is_there
            self._settle(source, hidden, is_there=is_there)
        used = Used(
            pairs=len(need.pairs),
            pairs_kept=pairs,
            edits=len(need.edits),
            edits_kept=edits,
            identifiers=len(need.identifiers),
            identifiers_kept=sum(one in self._identifiers for one in need.identifiers),
            old=len(need.old),
            old_kept=sum(one in self._identifiers for one in need.old),
        )
        return used, list(hidden.values())

    def _settle(self, source: Source, hidden: dict[int, Source], *, is_there: bool) -> None:
        if is_there:
            self._fetched.discard(source.place)
        elif source.place not in self._fetched:
            self._fetched.add(source.place)
            hidden[source.place] = source


NOTHING = Facts(frozenset(), frozenset(), "")


def _take_away(counts: Counter[Hashable], gone: Iterable[Hashable]) -> None:
    for one in gone:
        counts[one] -= 1
        if counts[one] <= 0:
            # Nothing at all, not a zero: being there is what is asked for.
            del counts[one]
