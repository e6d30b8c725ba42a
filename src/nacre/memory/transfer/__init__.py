"""Import, export and move memories."""
