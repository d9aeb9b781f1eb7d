"""Configuration files as values that remember their lines: bounded in size, depth and number of nodes."""
