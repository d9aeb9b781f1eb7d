"""Scheduling policies: one file each, one registry."""
