"""The page of `kata view`."""
