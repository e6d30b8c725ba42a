"""Meaning beside words: vectors of files and questions, weighed together with what the words show.

Behind the extra `embed`: the model's weights come from an installed package, nothing is downloaded, numpy is
imported on first use and never at start-up. What is kept on disk is derived and disposable. May import
`local` and the store's disk functions.
"""
