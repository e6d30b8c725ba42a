"""Completion of `nacre` in bash, zsh and fish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

SHELLS = ("bash", "zsh", "fish")
ZSH_READY = "(( $+functions[compdef] )) || { autoload -Uz compinit; compinit }"
"""A script of completion needs this function, which many configurations load themselves."""
BEGIN = "# >>> nacre completion >>>"
END = "# <<< nacre completion <<<"


@dataclass(frozen=True, slots=True)
class CompletionFile:
    """A file that completion needs: a script, or lines between two marks in a file of the user."""

    path: Path
    text: str
    is_block: bool = False

    @property
    def is_done(self) -> bool:
        """Whether the file has the text already."""
        try:
            there = self.path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        return self.text in there if self.is_block else there == self.text


def completion_files(shell: str, environ: Mapping[str, str], home: Path) -> list[CompletionFile]:
    """Return what a shell needs to complete `nacre`."""
    script = completion_script(shell)
    person = Path(environ.get("HOME") or Path.home())
    if shell == "fish":
        folder = Path(environ.get("XDG_CONFIG_HOME") or person / ".config")
        return [CompletionFile(folder / "fish" / "completions" / "nacre.fish", script)]
    path = home / "completion" / f"nacre.{shell}"
    lines = [
        BEGIN,
        *([ZSH_READY] if shell == "zsh" else []),
        f"[ -r {quote(str(path))} ] && . {quote(str(path))}",
        END,
    ]
    own = Path(environ.get("ZDOTDIR") or person) / ".zshrc" if shell == "zsh" else person / ".bashrc"
    return [CompletionFile(path, script), CompletionFile(own, "\n".join([*lines, ""]), is_block=True)]


def completion_script(shell: str) -> str:
    """Return the script of click for a shell; it asks `nacre` itself what completes a line."""
    from click.shell_completion import get_completion_class

    from nacre.cli.main import nacre

    found = get_completion_class(shell)
    assert found is not None, "click has a class for each of these shells"
    one = found(nacre, {}, "nacre", "_NACRE_COMPLETE")
    # Not `source()`, which starts a shell to look at its version.
    return one.source_template % one.source_vars()
