"""Erase a memory from its directory, its history and every session."""
