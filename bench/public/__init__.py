"""A benchmark of memory programs that others can run: `python -m bench.public ADAPTER`.

Adapters are in `adapters/`, data with its licence in `data/`, results in `results/`. The method, the limits
and the leaderboard are in `docs/why/public-benchmark.md`; `answers.py` asks questions with a model and
needs a key.
"""
