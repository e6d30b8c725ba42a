"""Team memory: sync through a git remote or a shared folder."""
