"""`nacre memory`, `recall`, `dream` and `instructions`."""
