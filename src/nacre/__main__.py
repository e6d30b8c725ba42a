"""`python -m nacre` and the `nacre` script: `--version` at once, the command line for the rest."""

import sys

from nacre.version import VERSION


def main() -> int:
    """Run the program and return its exit code."""
    if sys.argv[1:] == ["--version"] and _is_version_printed():
        return 0
    try:
        if sys.argv[1:2] == ["hook"] and len(sys.argv) == 3 and not sys.argv[2].startswith("-"):
            # Somebody waits for each of these: they go by a door that imports next to nothing.
            from nacre.cli.install.run_hook import run_hook

            return run_hook(sys.argv[2])
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
    if not sys.flags.safe_path:
        # `python -m` puts the working directory first on the path; its files must not replace modules.
        del sys.path[0]
    sys.exit(main())
