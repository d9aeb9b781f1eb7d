"""Facts about a job read from its source code and launch line, and similar past jobs."""
