"""Dagster resources: the adapters behind the ports (clusters, stores, embedders, language models)."""
