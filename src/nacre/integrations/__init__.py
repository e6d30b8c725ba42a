"""Integrations with other frameworks: one module each, with an extra that installs the framework.

Nothing is imported here, so that no vendor package is loaded unasked.
"""
