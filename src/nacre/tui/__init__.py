"""A terminal interface: the chat on a whole screen. A door: it shows and asks, and decides nothing.

May import agents and everything below, and `textual`, which comes with the extra `tui`; no other door.
Nothing is re-exported: whoever opens it imports `nacre.tui.run`, when it is wanted.
"""
