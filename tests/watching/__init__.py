"""`kata watch`."""
