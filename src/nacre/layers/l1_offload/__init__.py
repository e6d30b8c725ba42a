"""Layer 1, offload: a large tool result goes to disk before it is ever sent; a frozen preview stays.

Trigger: a result, or a round of results, over its budget; a result that is in view already.
Cost: one file. Prefix: never moves, because nothing that was sent changes (C4 to C8).
"""
