"""Content-addressed snapshots of submitted code: seal, verify, materialise."""
