"""`nacre agents`."""
