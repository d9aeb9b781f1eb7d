"""From a walked program to the fields of a job's metadata: one reader per field."""
