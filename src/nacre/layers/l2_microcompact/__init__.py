"""Layer 2, microcompaction: old tool results are cleared when that costs nothing.

Trigger: the provider's cache went cold, or the request does not fit.
Cost: nothing but the files of what was cleared. Prefix: moves, from the first cleared result on (C9 to C12b).
"""
