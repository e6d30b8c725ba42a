"""What a server with PostgreSQL takes and withstands; docs/why/server-load.md shows the figures."""
