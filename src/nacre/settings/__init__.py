"""Every setting, from files, environment and command line, read once.

`load` returns one frozen `Settings` that knows where each value came from. Light, because every command
loads it.
"""

from nacre.settings.load import load
from nacre.settings.trust import decline, is_trusted, trust
from nacre.settings.values import Settings, SettingsProblem, Switches

__all__ = ["Settings", "SettingsProblem", "Switches", "decline", "is_trusted", "load", "trust"]
