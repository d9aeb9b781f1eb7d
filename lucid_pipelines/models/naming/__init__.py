"""Job names in buckets: names that differ by a number, a date or a few letters are one kind of job."""

from lucid_pipelines.models.naming.buckets import BucketSettings, NameBuckets
from lucid_pipelines.models.naming.stems import stem

__all__ = ["BucketSettings", "NameBuckets", "stem"]
