"""One conversation: its layers, turns, requests, background work and costs."""
