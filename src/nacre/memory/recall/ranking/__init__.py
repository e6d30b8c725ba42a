"""The ranker that needs no model and no network: terms, postings, evidence, a weighted sum, its certainty.

Pure: it knows files only as `Doc`. Everything in it is derived and can be thrown away. May import nothing of
nacre.
"""
