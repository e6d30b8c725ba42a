"""Answers to hooks of Claude Code."""
