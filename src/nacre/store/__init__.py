"""Where bytes rest: the store port and its two forms, and the session logs below a home.

May import messages, cache and the leaves. Nothing is re-exported, because start-up is measured:
`files` and `memory` hold the stores, `log` is one session, `sessions` are all of a home.
"""
