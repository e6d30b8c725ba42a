"""What recorded sessions would have cost with nacre's own tools: large files as pages, shorter results.

Lines that a reply used and a page does not show are read by one more request and carried from then on.
200 lines of every page are read before the next reply in any case, because a model may need more of a file
than the names that it repeats; "least" reads only what was used. Costs are those of the input
side, re-fetches included, as a share of append-only on the sessions as they were recorded.
`python -m bench.replay.own_tools [WINDOW] [EVERY] [START]` prints a row for each.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.replay import OPUS, recordings
from nacre.devtools.replay.own_tools import OwnTools, with_own_tools
from nacre.devtools.replay.policies import NACRE, NONE
from nacre.devtools.replay.run import ReplayTerms, replay, totals
from nacre.devtools.replay.schema import PolicyTotals, Recorded
from nacre.tools.read import ReadSettings

LEAST_AROUND = 40


def variants() -> dict[str, OwnTools]:
    """What is compared, by name."""
    found = {"squeeze": OwnTools(read=ReadSettings(page_chars=0))}
    for chars in (8_000, 12_000, 16_000, 24_000):
        limits = ReadSettings(page_chars=chars)
        found[f"pages {chars:,}"] = OwnTools(read=limits, squeezes=False)
        found[f"pages {chars:,}, least"] = OwnTools(
            read=limits, squeezes=False, around=LEAST_AROUND, least_lines=0
        )
    found["both"] = OwnTools()
    return found


def measure(sessions: Sequence[Recorded], window: int) -> dict[str, PolicyTotals]:
    """Return the totals of append-only, of nacre on the recordings, and of nacre with each variant."""
    terms = ReplayTerms(model=OPUS, window=window)
    found = {
        f"recorded, {name}": sums for name, sums in totals(replay(sessions, [NONE, NACRE], terms)).items()
    }
    for name, tools in variants().items():
        changed = [with_own_tools(one, tools) for one in sessions]
        found[name] = totals(replay(changed, [NACRE], terms))[NACRE.name]
    return found


def main(arguments: Sequence[str]) -> int:
    window, every, start = [*map(int, arguments), *(200_000, 2, 0)[len(arguments) :]]
    sessions = recordings()[start::every]
    found = measure(sessions, window)
    none = found[f"recorded, {NONE.name}"].input_usd
    print(f"{len(sessions)} sessions, {OPUS}, window {window:,}")
    for name, sums in found.items():
        pairs = sums.used.pairs_kept / max(1, sums.used.pairs)
        edits = sums.used.edits_kept / max(1, sums.used.edits)
        share = sums.input_usd / none
        print(f"{name:<28} {share:.3f}  requests {sums.requests:,}  pairs {pairs:.1%}  edits {edits:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
