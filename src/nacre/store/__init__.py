"""Files on disk: session logs, tool results, locks, the git history of a directory.

Nothing is re-exported, because start-up time is measured.
"""
