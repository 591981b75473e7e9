"""What every kata of the repository is held to."""
