"""Layer 2, microcompaction: old tool results are cleared, when that costs nothing or pays.

Trigger: the provider's cache went cold, or nothing fits any more; switched on, arithmetic on a warm cache.
Cost: nothing but the files of what was cleared. Prefix: moves, from the first cleared result on (C9 to C12b).
"""
