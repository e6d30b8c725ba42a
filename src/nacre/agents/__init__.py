"""Sub-agents: types, team, registry, worktrees, mail room, teammates in processes of their own."""
