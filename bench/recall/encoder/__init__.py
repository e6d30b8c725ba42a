"""How the packaged encoder of notes was trained: one command per step, described in README.md."""
