"""The packing model in service scores jobs, under the thresholds in force."""

from __future__ import annotations

import json
from pathlib import Path

from lucid_pipelines.control import tuned
from lucid_pipelines.control.estimating import models_root
from lucid_pipelines.control.scoring import packing_in_service
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.models.artefacts import ModelKind, Registry
from lucid_pipelines.models.packing import default_packing_model
from lucid_pipelines.models.packing.training import train_packing
from tests.support_models.live import open_system
from tests.support_models.worlds import START, pairs


def test_the_promoted_model_scores_and_a_damaged_one_is_counted(tmp_path: Path) -> None:
    client, system, clock = open_system(tmp_path / "home", START)
    with client:
        assert packing_in_service(system).version == default_packing_model().version
        document = train_packing(pairs(), judge=False)
        registry = Registry(models_root(system.settings))
        registry.promote(ModelKind.PACKING, registry.keep(document), who="t", why="t")
        model = packing_in_service(system)
        assert model.version == document["version"]

        action = tuned.propose(
            system.store, {"tiny_above": 0.999, "medium_above": 0.998}, policy="lucid", why="t", now=clock.now()
        )
        tuned.apply(system.store, action.action_id, person="ada", now=clock.now())
        strict, busy = packing_in_service(system), Profile(60.0, 30.0, 4_000.0)
        assert (strict.thresholds.tiny_above, strict.thresholds.medium_above) == (0.999, 0.998)
        assert (strict.score(busy, False) or 0) >= (model.score(busy, False) or 0)

        path = registry.root / "packing" / f"{document['version']}.json"
        damaged = json.loads(path.read_text())
        damaged["model"]["bound_frac"] = 0.0
        path.write_text(json.dumps(damaged))
        assert packing_in_service(system).version == default_packing_model().version
        assert system.store.counters.all("packing") == {"packing_model_refused": 1}
