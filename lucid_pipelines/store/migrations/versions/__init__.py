"""One file per schema change; expand first, contract later."""
