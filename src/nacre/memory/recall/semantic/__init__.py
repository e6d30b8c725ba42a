"""Ranking by vectors of files and questions, together with the features of words.

Needs the extra `embed`: the model's weights come from an installed package, nothing is downloaded, numpy is
imported on first use and never at start-up. Files on disk are derived. May import `ranking` and `store.disk`.
"""
