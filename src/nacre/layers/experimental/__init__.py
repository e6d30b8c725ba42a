"""Layers that are off by default: snip, collapse, clearing by the provider."""
