"""nacre inside other frameworks: one module each, under the extra that installs the framework.

Nothing is imported here, so that no vendor package is loaded unasked.
"""
