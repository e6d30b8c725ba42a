"""nacre inside Claude Code: answers to its hooks."""
