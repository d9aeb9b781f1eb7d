"""Event-driven replays of traces: the same policies as in production, with interference and profiling.

``run_replay`` is the front door: trace jobs, a cluster and policy names in; summaries, Parquet tables and one
HTML page out. ``replay`` runs one policy on a prepared input.
"""

from lucid_pipelines.simulation.engine import replay
from lucid_pipelines.simulation.inputs import ReplayInput, prepare
from lucid_pipelines.simulation.options import ReplayOptions
from lucid_pipelines.simulation.record import Replay
from lucid_pipelines.simulation.run import ReplayReport, run_replay
from lucid_pipelines.simulation.summary import Summary, summarise
from lucid_pipelines.simulation.tables import notes_of, table_rows, text_table

__all__ = [
    "Replay",
    "ReplayInput",
    "ReplayOptions",
    "ReplayReport",
    "Summary",
    "notes_of",
    "prepare",
    "replay",
    "run_replay",
    "summarise",
    "table_rows",
    "text_table",
]
