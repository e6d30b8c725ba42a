"""Reads a Bash command line and says whether it only reads: by parsing it, never by substrings.

What is not understood is not read-only. Trusted is what the command line does not say: the environment, the
programs on PATH, the configuration of git. May import nothing of nacre but the leaves.
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
