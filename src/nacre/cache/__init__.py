"""What the provider remembers: model rules and prices, cache markers, the ledger, the providers' cache rules.

Pure: no clock, no network; the one data file is read at import. May import messages and errors.
"""

from nacre.cache.breakpoints import place
from nacre.cache.ledger import Divergence, Ledger, ReadDrop, Sent
from nacre.cache.rules import ModelProfile, Rules, cost, profile, with_overrides

__all__ = [
    "Divergence",
    "Ledger",
    "ModelProfile",
    "ReadDrop",
    "Rules",
    "Sent",
    "cost",
    "place",
    "profile",
    "with_overrides",
]
