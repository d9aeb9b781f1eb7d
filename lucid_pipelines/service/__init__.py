"""What `lucid up` runs: the folder layout, the Dagster home, the processes and their supervisor."""
