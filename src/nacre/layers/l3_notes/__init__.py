"""Layer 3, session notes: a running summary on disk that is there before a compaction needs it.

Trigger: a pause after a conversation has grown; at the end of a turn, by rule. Cost: a part of one fork, by
rule nothing.
Prefix: never moves, until the notes stand for what they cover (C13 to C17).
"""
