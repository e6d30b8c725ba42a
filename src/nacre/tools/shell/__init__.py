"""Decide whether a Bash command line only reads: by parsing it, never by substrings.

What cannot be parsed is not read-only. The environment, the programs on PATH and the configuration of git are
trusted here.
"""

from nacre.tools.shell.commands import Redirection, ShellWord, SimpleCommand
from nacre.tools.shell.judge import (
    EXTRACTION,
    READ_ONLY,
    Allowed,
    CommandVerdict,
    explain,
    is_read_only,
    objection,
    programs,
)

__all__ = [
    "EXTRACTION",
    "READ_ONLY",
    "Allowed",
    "CommandVerdict",
    "Redirection",
    "ShellWord",
    "SimpleCommand",
    "explain",
    "is_read_only",
    "objection",
    "programs",
]
