"""`python -m nacre` and the `nacre` script: `--version` at once, the command line for the rest."""

import sys

from nacre.version import VERSION


def main() -> int:
    """Run the program and return its exit code."""
    if sys.argv[1:] == ["--version"] and _is_version_printed():
        return 0
    try:
        from nacre.cli.main import main as run
    except KeyboardInterrupt:
        return 130
    return run(sys.argv[1:])


def _is_version_printed() -> bool:
    """Editors and shells ask for this often; it must cost no more than starting Python."""
    try:
        print(f"nacre {VERSION}", flush=True)
    except OSError:
        return False  # the slow path fails the same way, and knows how to say so
    return True


if __name__ == "__main__":
    sys.exit(main())
