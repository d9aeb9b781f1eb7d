"""Loaders for public trace formats, the synthetic generator, contracts and quarantine.

``load`` reads a trace of any format; ``generate`` makes one; ``describe`` sums it up; ``convert`` writes it in
the project's own format.
"""

from lucid_pipelines.traces.clusters import cluster_yaml, cover_jobs, fit_cluster
from lucid_pipelines.traces.contract_text import contracts_markdown
from lucid_pipelines.traces.conversion import convert
from lucid_pipelines.traces.description import Description, describe
from lucid_pipelines.traces.detect import detect_format
from lucid_pipelines.traces.generator import generate
from lucid_pipelines.traces.loaded import LoadedTrace
from lucid_pipelines.traces.loading import load
from lucid_pipelines.traces.predictions import read_predictions, read_throughput_forecast
from lucid_pipelines.traces.profiles import ProfileTable, generated_profiles, read_profiles
from lucid_pipelines.traces.registry import CONTRACTS, FORMATS
from lucid_pipelines.traces.render import render_description
from lucid_pipelines.traces.workloads import assign_workloads

__all__ = [
    "CONTRACTS",
    "FORMATS",
    "Description",
    "LoadedTrace",
    "ProfileTable",
    "assign_workloads",
    "cluster_yaml",
    "contracts_markdown",
    "convert",
    "cover_jobs",
    "describe",
    "detect_format",
    "fit_cluster",
    "generate",
    "generated_profiles",
    "load",
    "read_predictions",
    "read_profiles",
    "read_throughput_forecast",
    "render_description",
]
