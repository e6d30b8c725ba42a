"""Layer 6: memory is consolidated between sessions, by a model or by rule, as one commit or not at all.

Due once a day, when enough sessions have gone by (`policy.py`); one process at a time (`lock.py`). Costs one
agent's errand a day, or nothing by rule; never moves the prefix of a conversation.
May import: memory, loop, tools, store, messages.
"""
