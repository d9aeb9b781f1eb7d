"""Dagster assets: history, models, replays, tuner, live metrics, with their checks and partitions."""
