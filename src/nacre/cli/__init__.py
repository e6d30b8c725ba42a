"""DOOR: the command line, one file per command; it translates and decides nothing.

`main` parses and reports; a command's file is imported only when that command is asked for.
May import every other room.
"""
