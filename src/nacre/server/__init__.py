"""The same memory over HTTP: REST with OpenAPI and MCP, for clients with a key (S7-S10)."""
