"""Layer 5, extraction: durable facts of what was just said are written into memory.

Trigger: the end of a turn, once something new was said. Cost: one fork a turn, by rule nothing.
Prefix: never moves; the fork reads the parent's cache and writes nothing into its conversation (E1 to E10).
"""
