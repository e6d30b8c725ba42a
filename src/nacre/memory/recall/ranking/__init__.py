"""Ranks memory files without a model or a network: terms, postings, features, weighted sum, confidence.

Pure: it knows files only as `Doc`. All data in it is derived and can be deleted. May import only
`memory.dates`.
"""
