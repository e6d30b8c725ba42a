"""Layer 2, microcompaction: old tool results are cleared, when that costs nothing or pays.

Trigger: the provider's cache went cold; or, switched on, arithmetic that says a warm rewrite pays.
Cost: nothing but the files of what was cleared. Prefix: moves, from the first cleared result on (C9 to C12b).
"""
