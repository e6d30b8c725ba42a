"""Layer 6, dream: memory is consolidated between sessions, by a model or by rule, in one commit or not.

Trigger: the end of a turn, once a day and after enough sessions (`policy.py`); one process at a time
(`lock.py`). Cost: one background agent run per day, nothing by rule. Prefix: never moves.
"""
