"""Measure some policies of the replay anew and keep the rows of the others.

`python -m bench.replay.again POLICY ...`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from bench.machine import RESULTS, keep
from bench.replay import measure_again, pages, plot
from bench.replay.cells import makers


def main(arguments: Sequence[str]) -> int:
    unknown = [name for name in arguments if name not in makers()]
    if unknown or not arguments:
        print(f"name policies to measure, of {', '.join(makers())}", file=sys.stderr)
        return 2
    before = json.loads((RESULTS / "replay.json").read_text(encoding="utf-8"))
    figures = measure_again(arguments, before)
    keep("replay", figures)
    (RESULTS / "replay.svg").write_text(plot(figures), encoding="utf-8")
    for file, text in pages(figures).items():
        (RESULTS / file).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
