"""`nacre doctor`."""
