"""Models of public libraries for the abstract evaluator: what their calls mean for a job's settings."""
