"""Replay recorded sessions through the layers and the providers' cache rules: cost and retention (P7).

No model is called.
"""
