"""Data model of a conversation: blocks, records, the transcript and the view folded from it.

Pure values: no I/O, no clock. May import errors. Nothing is re-exported, because every command imports
something from here and start-up is measured.
"""
