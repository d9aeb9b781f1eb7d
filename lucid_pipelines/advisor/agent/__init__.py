"""A language model that looks for what static reading left open: bounded, read-only, and checked (paper section 12).

What it reads was written by anybody. It has two tools, both locked to the snapshot; it can point at a value
but not make one up: an answer counts only where the value stands in code that the reader itself finds there.
"""
