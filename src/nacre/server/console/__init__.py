"""The web console: pages over the operations of the HTTP API (W1)."""
