"""The command line, one package per command family.

`main` parses and reports; the module of a command is imported when the command is called.
"""
