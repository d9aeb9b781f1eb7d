"""System Tuner: search over settings by trace simulation."""
