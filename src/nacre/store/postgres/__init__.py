"""PostgreSQL as the store of a server: connections, schema, and the rows of memory spaces (S1-S4)."""
