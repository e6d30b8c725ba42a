"""Dates in text: absolute dates, relative dates made absolute, date ranges that a question names."""
