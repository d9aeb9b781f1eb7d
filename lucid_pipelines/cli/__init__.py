"""The `lucid` command: one file per command group."""
