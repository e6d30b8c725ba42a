"""Layer 5, extraction: facts of lasting value in the new messages are written to memory.

Trigger: a pause after new messages of a person, by rule the end of a turn. Cost: a part of one fork, by rule
nothing.
Prefix: never moves; the fork reads the parent's cache and writes nothing into its conversation (E1 to E10).
"""
