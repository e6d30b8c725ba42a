"""Full-screen chat. It displays and asks; it decides nothing.

Requires `textual` from the extra `tui`. Nothing is re-exported: import `nacre.tui.app` when it is needed.
"""
