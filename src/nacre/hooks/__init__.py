"""The person's own commands at fixed points of a session."""
