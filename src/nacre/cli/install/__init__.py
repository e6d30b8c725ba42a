"""`nacre install`, `uninstall` and `hook`."""
