"""What the provider remembers: model rules and prices, cache markers, the ledger, the providers' cache rules.

Pure: no clock, no network; the one data file is read with `rules`. May import messages and errors.
"""
