"""First true error, its class, and the safe thing to do about it."""
