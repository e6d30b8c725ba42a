"""Recall: ranks the memories for a message, checks their references, and attaches the few that help.

Works without a model and without a network; a small model, if configured, chooses during the reply.
May import the rest of memory, providers, store and messages.
"""
