"""The ladder, and launches beside par."""
