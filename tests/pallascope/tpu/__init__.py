"""Predictions."""
