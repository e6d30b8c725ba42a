"""Relative dates in English and Chinese."""
