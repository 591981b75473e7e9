"""The rungs of the ladder, their findings and diagnoses."""
