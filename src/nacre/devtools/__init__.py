"""Tools for development: the provider simulator, replay of recorded sessions, models of provider caches."""
