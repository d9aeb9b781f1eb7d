"""What is sent to nodes: it must be readable to the Pythons that nodes have, also where those are too old to run it."""

from __future__ import annotations

import ast
import io
import zipfile

from lucid_pipelines.resources.clusters.agent_bundle import BOOTSTRAP, agent_bundle


def test_an_old_python_can_read_the_program_that_tells_it_so() -> None:
    ast.parse(BOOTSTRAP, feature_version=(3, 5))


def test_every_part_is_written_for_python_3_9() -> None:
    with zipfile.ZipFile(io.BytesIO(agent_bundle().data)) as archive:
        names = archive.namelist()
        for name in names:
            ast.parse(archive.read(name), filename=name, feature_version=(3, 9))
    assert "main.py" in names
