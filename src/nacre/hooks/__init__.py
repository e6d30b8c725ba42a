"""Hooks: the user's own commands at fixed points of a session."""
