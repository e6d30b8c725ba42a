"""Layer 7, mail: agents send each other letters; each arrives exactly once, even if a process dies.

Trigger: a model or a person sends a letter. Cost: one small file per receiver; nothing without letters.
Prefix: never moves, because letters are attached to the next message (A3 to A5).
"""
