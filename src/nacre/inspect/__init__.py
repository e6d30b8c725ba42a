"""Read, check, import, export and summarise sessions."""
