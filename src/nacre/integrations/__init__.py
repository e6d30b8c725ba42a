"""DOOR: nacre inside other people's frameworks; one module each, under the extra that brings the framework.

They translate and decide nothing: what shrinks, what is recalled and what is kept is decided below. May
import everything below the doors, and each its own vendor. Nothing is imported here: no vendor unasked for.
"""
