"""Layer 5, extraction: facts of lasting value in the new messages are written to memory.

Trigger: the end of a turn with new messages of a person. Cost: one fork per turn, nothing by rule.
Prefix: never moves; the fork reads the parent's cache and writes nothing into its conversation (E1 to E10).
"""
