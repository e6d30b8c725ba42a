"""Development tools: the provider simulator, replay of recorded sessions, models of provider caches."""
