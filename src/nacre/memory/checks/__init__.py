"""Checks on memories: secrets, grounding, lint, audit."""
