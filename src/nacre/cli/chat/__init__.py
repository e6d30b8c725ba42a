"""`nacre chat` and `nacre -p`."""
