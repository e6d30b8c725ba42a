"""Checks whether what a memory names still exists in the working tree."""
