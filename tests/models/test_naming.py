"""Name buckets: the right distance, the same buckets one by one and all at once, and bounds."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.models.naming import BucketSettings, NameBuckets, stem
from lucid_pipelines.models.naming.distance import MAX_LENGTH, Texts, levenshtein
from lucid_pipelines.models.naming.fitting import fit_buckets

TEXT = st.text(st.sampled_from("ab#_é漢"), max_size=MAX_LENGTH)


def by_table(first: str, second: str) -> int:
    """The textbook dynamic programme."""
    above = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        row = [i]
        for j, b in enumerate(second, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (a != b)))
        above = row
    return above[-1]


@given(TEXT, st.lists(TEXT, min_size=1, max_size=12))
@settings(max_examples=150)
def test_distances_are_those_of_the_dynamic_programme(pattern: str, texts: list[str]) -> None:
    assert Texts(texts).distances(pattern).tolist() == [by_table(pattern, text) for text in texts]


@given(TEXT, st.lists(TEXT, min_size=1, max_size=12), st.integers(0, 9))
@settings(max_examples=150)
def test_the_near_ones_are_all_that_are_near(pattern: str, texts: list[str], most: int) -> None:
    rows, edits = Texts(texts).near(pattern, np.full(len(texts), float(most)))
    near = {i: by_table(pattern, text) for i, text in enumerate(texts) if by_table(pattern, text) <= most}
    assert dict(zip(rows.tolist(), edits.tolist(), strict=True)) == near


def test_known_distances_and_long_texts() -> None:
    assert levenshtein("kitten", "sitting") == 3
    assert levenshtein("", "abc") == levenshtein("abc", "") == 3
    assert levenshtein("x" * 64, "y" * 64) == 64
    assert levenshtein("x" * 500, "x" * 64) == 0


def test_stems_drop_what_changes_from_run_to_run() -> None:
    assert stem("ResNet50_lr0.01_seed3") == stem("resnet50_lr0.1_seed12") == "resnet#_lr#_seed#"
    assert stem("run-9f8a7b6c5d") == stem("run-0011aabbcc") == "run-#"
    assert stem("x 2026-05-01 12:30:11") == stem("x 2025-11-30 01:02:03")
    assert stem("a1b2c3d4-0000-1111-2222-333344445555") == "#"
    assert stem("deadbeef") == "deadbeef"  # a word, not a hash: no digit
    assert stem("  ") == stem("") == ""
    assert len(stem("é" * 500)) <= MAX_LENGTH


@given(st.text(max_size=200))
@settings(max_examples=60)
def test_a_stem_of_a_stem_is_itself(name: str) -> None:
    assert stem(stem(name)) == stem(name)


def test_names_of_one_kind_share_a_bucket_and_others_do_not() -> None:
    names = [
        f"{kind}_{i}"
        for i in range(30)
        for kind in (
            "train_resnet_imagenet",
            "train_resnet_imagenet_v",
            "eval_bert_squad",
            "debug",
            "gpt2-pretrain-wiki",
        )
    ]
    buckets = fit_buckets(names)
    groups = {kind: buckets.bucket(f"{kind}_99") for kind in ("train_resnet_imagenet", "eval_bert_squad", "debug")}
    assert len(set(groups.values())) == 3
    assert None not in groups.values()
    assert buckets.bucket("Train-ResNet-ImageNet-17") == groups["train_resnet_imagenet"]
    assert buckets.bucket("eval_bert_sqaud_3") == groups["eval_bert_squad"]
    assert buckets.bucket(None) is None
    assert buckets.bucket("") is None


@given(st.lists(st.text(st.sampled_from("abc_"), max_size=12), max_size=40))
@settings(max_examples=60)
def test_all_at_once_is_as_consistent_as_one_by_one(names: list[str]) -> None:
    together = NameBuckets(["aaaa_bbbb", "cccc"])
    found = together.bucket_many(names)
    assert found == [together.bucket(name) for name in names]
    assert [b is None for b in found] == [not stem(name) for name in names]
    again = NameBuckets.from_json(json.loads(json.dumps(together.to_json())))
    assert again.exemplars == together.exemplars
    near = together.settings.near_frac
    for name, bucket in zip(names, found, strict=True):
        if bucket is not None:
            text = stem(name)
            assert levenshtein(text, bucket) <= near * max(len(text), len(bucket)) + 1e-9


def test_a_new_name_founds_a_bucket_until_there_are_enough() -> None:
    buckets = NameBuckets(["train_resnet"], BucketSettings(max_buckets=2))
    assert buckets.bucket("simulate_fluid_flow") == "simulate_fluid_flow"
    assert buckets.bucket("simulate_fluid_flows") == "simulate_fluid_flow"
    assert buckets.bucket("quite another thing") is None
    assert buckets.bucket_many(["one more thing", "train_resnet7"]) == [None, "train_resnet"]
    assert len(buckets.exemplars) == 2
    copied = buckets.copy()
    assert copied.exemplars == buckets.exemplars


def test_a_few_names_or_none_need_no_clustering() -> None:
    assert fit_buckets([]).exemplars == ()
    assert fit_buckets(["", None, "  "]).exemplars == ()


def test_many_distinct_names_stay_bounded() -> None:
    names = [f"job {chr(97 + i % 26)}{chr(97 + i // 26 % 26)}{chr(97 + i // 676 % 26)} of user" for i in range(3000)]
    buckets = fit_buckets(names, BucketSettings(max_landmarks=60, max_buckets=40))
    assert 1 <= len(buckets.exemplars) <= 60
    assert all(bucket is not None for bucket in buckets.bucket_many(names[:50]))
