"""Instruction files: CLAUDE.md, AGENTS.md, rules and their includes."""
