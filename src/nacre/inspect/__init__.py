"""Sessions read, checked, imported, exported and summed up."""
