"""Who runs the loop: an agent, its session, their layers, and how they are opened from settings.

The only room that will know every layer. May import everything below the doors. Nothing is re-exported:
the public names stand in `nacre` itself.
"""
