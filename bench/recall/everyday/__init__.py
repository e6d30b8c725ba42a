"""Invented people with memories and everyday messages: which memory does a message need?

`people/*.txt` has one person per file: memories (`m`) and labelled messages (`p`). `messages.txt` has
messages that need a memory (1) or none (0), `concepts.txt` words with related meanings. `more/*.txt` has
further people in the form of `people`. All of it was written for nacre.
"""
