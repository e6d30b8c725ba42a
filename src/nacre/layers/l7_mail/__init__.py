"""Layer 7, mail: agents write each other letters; what was sent arrives once, whoever dies meanwhile.

Trigger: a model or a person writes. Cost: one small file a receiver; nothing while nobody writes.
Prefix: never moves, because letters ride at the tail of the next message (A3 to A5).
"""
