"""The seven layers, ordered by cost; each exists so that a more expensive one rarely runs.

A layer returns records or smaller blocks and never edits a view. No layer imports another.
"""
