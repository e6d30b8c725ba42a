"""Sub-agents: types, team, registry, worktrees, mail room, teammates in separate processes."""
