"""The running Dagster webserver's GraphQL interface, for what our own store cannot ask of it.

Dagster's own client takes seconds to import; a request is one POST.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.service.control import url
from lucid_pipelines.service.dagster_home import LOCATION_NAME
from lucid_pipelines.settings import Settings

_TIMEOUT_S = 60.0
_REPOSITORY = {"repositoryName": "__repository__", "repositoryLocationName": LOCATION_NAME}

_ADD_PARTITION = """
mutation Add($repository: RepositorySelector!, $definition: String!, $key: String!) {
  addDynamicPartition(repositorySelector: $repository, partitionsDefName: $definition, partitionKey: $key) {
    __typename ... on PythonError { message } ... on UnauthorizedError { message }
  }
}"""
_LAUNCH = """
mutation Launch($backfill: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $backfill) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
    ... on PartitionKeysNotFoundError { message } ... on UnauthorizedError { message }
  }
}"""


def add_dynamic_partitions(settings: Settings, definition: str, keys: Sequence[str]) -> None:
    """Make sure that these partitions exist.

    Raises:
        ExternalError: the webserver cannot be reached or refuses.
    """
    for key in keys:
        variables = {"repository": _REPOSITORY, "definition": definition, "key": key}
        answer = _ask(settings, _ADD_PARTITION, variables)["addDynamicPartition"]
        if answer["__typename"] not in ("AddDynamicPartitionSuccess", "DuplicateDynamicPartitionError"):
            raise ExternalError(
                f"Dagster did not add the partition: {answer.get('message', answer['__typename'])}: {key}"
            )


def launch_backfill(settings: Settings, asset: str, partitions: Sequence[str], tags: Mapping[str, str]) -> str:
    """Start a backfill of one asset; returns its id.

    Raises:
        ExternalError: the webserver cannot be reached or refuses.
    """
    backfill = {
        "assetSelection": [{"path": [asset]}],
        "partitionNames": list(partitions),
        "tags": [{"key": key, "value": value} for key, value in tags.items()],
    }
    answer = _ask(settings, _LAUNCH, {"backfill": backfill})["launchPartitionBackfill"]
    if answer["__typename"] != "LaunchBackfillSuccess":
        raise ExternalError(f"Dagster did not start the backfill: {answer.get('message', answer['__typename'])}")
    return str(answer["backfillId"])


def _ask(settings: Settings, query: str, variables: Mapping[str, object]) -> dict[str, Any]:
    body = json.dumps({"query": query, "variables": variables}).encode()
    address = f"{url(settings)}/graphql"
    request = Request(address, body, {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as response:
            document: dict[str, Any] = json.load(response)
    except (URLError, OSError, ValueError) as error:
        raise ExternalError(
            f"the Dagster webserver does not answer; start it with `lucid up`: {address}: {error}"
        ) from error
    if document.get("errors"):
        raise ExternalError(f"Dagster refuses the request: {document['errors'][0].get('message')}")
    return document["data"]
