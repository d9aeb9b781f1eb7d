"""Content-addressed snapshots of submitted code: seal, verify, materialise.

``seal`` turns a working tree into a digest, ``materialise`` turns the digest into files that a job may write to.
The store is safe for any number of processes, also when they are killed.
"""

from lucid_pipelines.snapshots.archiving import write_archive
from lucid_pipelines.snapshots.errors import (
    CorruptSnapshotError,
    SnapshotTooLargeError,
    SourceChangedError,
    StoreFullError,
    UnreadableSourceError,
)
from lucid_pipelines.snapshots.garbage import garbage_collect
from lucid_pipelines.snapshots.manifests import DirectoryEntry, FileEntry, LinkEntry, Manifest
from lucid_pipelines.snapshots.materialising import materialise
from lucid_pipelines.snapshots.results import (
    CollectedGarbage,
    Exclusion,
    ExclusionReason,
    Materialised,
    SealedSnapshot,
    SealProgress,
    SecretFinding,
    SnapshotLimits,
)
from lucid_pipelines.snapshots.sealing import seal
from lucid_pipelines.snapshots.verifying import manifest, read_file, verify

__all__ = [
    "CollectedGarbage",
    "CorruptSnapshotError",
    "DirectoryEntry",
    "Exclusion",
    "ExclusionReason",
    "FileEntry",
    "LinkEntry",
    "Manifest",
    "Materialised",
    "SealProgress",
    "SealedSnapshot",
    "SecretFinding",
    "SnapshotLimits",
    "SnapshotTooLargeError",
    "SourceChangedError",
    "StoreFullError",
    "UnreadableSourceError",
    "garbage_collect",
    "manifest",
    "materialise",
    "read_file",
    "seal",
    "verify",
    "write_archive",
]
