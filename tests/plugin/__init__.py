"""pytest sessions from outside."""
