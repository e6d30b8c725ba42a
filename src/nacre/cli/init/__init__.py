"""`nacre init`: a short set-up that can be skipped, repeated and undone."""
