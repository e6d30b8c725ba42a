"""The seven numbered layers: offload, microcompact, notes, compact, extract, dream, mail.

They are ordered by cost; each exists so that a more expensive one rarely runs. `_open` in `app/open_agent.py`
adds them to a session, between those of other packages. A layer returns records or smaller blocks and never
edits a view. No layer imports another.
"""
