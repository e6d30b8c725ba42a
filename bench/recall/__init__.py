"""Recall on public sets: nacre's local index without any model beside the rankers it must beat, in one run.

`python -m bench.run recall` measures quality, `python -m bench.run recall.speed` time and memory.

Documents become real memory files in one folder, without fields that nacre itself does not write: who says a
message stands before its words. At most five picks. Everyday messages are those of people that nothing was
tuned on. Some results kept in `bench/results` were measured before this layout; `older` names them.

The halves were fixed before anything was tuned:
weights and cuts were chosen on `tune` alone. The ranking was run on `score` once with those weights before
this benchmark was written; its certainty twice, because the first look showed that shared first names were
mistaken for relevance. Whatever changed later (the table of everyday words, the cut on each pick) was
measured on `tune` first. Relevance was then learnt anew on `tune` alone, because bars were missed on `score`:
what was looked for came from there, the weights and cuts did not, and `score` was run once with them. Every
run of this benchmark shows `score` again: it is a check, no longer a held-out test. The sets lie beside the
repository and are never part of it; without them the benchmark says so and measures nothing.
"""

from __future__ import annotations

from bench.recall.pages import pages as pages
from bench.recall.quality import FULL as FULL
from bench.recall.quality import TINY as TINY
from bench.recall.quality import measure as measure
