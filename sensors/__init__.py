"""Dagster sensors and schedules, and the jobs (graphs of ops) that they fire."""
