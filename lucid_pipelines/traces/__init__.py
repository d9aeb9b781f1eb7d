"""Loaders for public trace formats, the synthetic generator, contracts and quarantine."""
