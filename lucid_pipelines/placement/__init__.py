"""Consolidated placement, GPU sharing and the binder."""
