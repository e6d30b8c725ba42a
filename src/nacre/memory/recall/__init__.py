"""Which memories a message gets to see: scanned, ranked, chosen, checked against the files, attached.

Works without a model and without a network; a small model, where there is one, chooses beside the reply.
May import the rest of memory, providers, store and messages.
"""
