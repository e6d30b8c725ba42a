"""The web console: pages over the operations of the HTTP API, for one person or for a tenant with a key (W1)."""
