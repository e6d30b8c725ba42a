"""The composition root: opens agents and memories from settings."""
