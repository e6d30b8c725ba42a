"""Memory directories on disk: containment, transactions, scans, history."""
