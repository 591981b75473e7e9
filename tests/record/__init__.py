"""The ledger and git."""
