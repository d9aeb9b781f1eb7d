"""Embedders behind one port: hashing without weights (default), BGE-m3, any ``/v1/embeddings`` server."""
