"""Layers that add context to messages: the date, instructions, recalled memories, skills, the plan."""
