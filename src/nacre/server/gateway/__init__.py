"""A transparent proxy between any agent and its provider: costs, a warm cache, recordings (G1-G3)."""
