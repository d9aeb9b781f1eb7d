"""What can go wrong with a snapshot, as branches of the one error tree."""

from __future__ import annotations

from lucid_pipelines.domain.errors import ExternalError, InputError, StateError


class SnapshotTooLargeError(InputError):
    """The tree exceeds a cap; the message names the largest offenders and both ways out."""


class UnreadableSourceError(InputError):
    """Something in the tree can be seen but not read."""


class SourceChangedError(StateError):
    """A file would not hold still while it was read."""


class CorruptSnapshotError(ExternalError):
    """The store lost or damaged what the snapshot consists of; the source must be sealed again."""


class StoreFullError(ExternalError):
    """The store cannot take more: disk, quota or file-size limit."""
