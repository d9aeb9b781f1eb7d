"""Words of the field as frozen types: no I/O, no imports from the rest of the project."""
