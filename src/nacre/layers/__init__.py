"""THE SEVEN LAYERS, CHEAPEST FIRST: each keeps the next, dearer one from firing.

A layer returns records or smaller blocks; it never edits a view, and none imports another.
May import the loop, memory and the rooms below them.
"""
