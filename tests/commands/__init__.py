"""The `kata` command."""
