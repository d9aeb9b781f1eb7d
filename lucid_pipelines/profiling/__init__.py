"""Space- and time-aware profiler."""
