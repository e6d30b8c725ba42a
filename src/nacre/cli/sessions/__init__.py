"""`nacre sessions`, `compact`, `context`, `gc` and `stats`."""
