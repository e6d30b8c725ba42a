"""The Markdown format of memories: entries, frontmatter, the index file."""
