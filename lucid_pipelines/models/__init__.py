"""Packing, throughput and duration models: training, explanation, registry."""
