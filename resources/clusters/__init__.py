"""Adapters of the ``Cluster`` port: places where attempts run."""
