"""Abstract evaluation of Python: run what is known, keep the rest as symbols, execute nothing."""
