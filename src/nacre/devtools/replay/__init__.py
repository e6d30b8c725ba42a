"""DOOR: recorded sessions through the layers and the providers' cache rules: cost and retention (P7).

May import agents and everything below; nothing is asked of any model.
"""
