from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.logs import Extent
from lucid_pipelines.tracker.asking import LearnedTemplate, ModelUse
from lucid_pipelines.tracker.fields import RecordParser
from lucid_pipelines.tracker.follow import follow
from lucid_pipelines.tracker.tracking import Tracked, track_extent

ODD = b"".join(
    b"~~ %d ~~ zorp %.4f ~~ quux %.3f ~~ password=hunter2 ~~\n" % (i * 3, 9 - i / 200, 0.7 + (i % 5) / 100)
    for i in range(1, 60)
)
"""A log whose words mean nothing to anybody: only a model could say what is what."""


class Model:
    """A language model that says what it was told to say, and keeps what it was asked."""

    def __init__(self, answer: Mapping[str, object] | Exception) -> None:
        self.answer = answer
        self.asked: list[Sequence[Mapping[str, str]]] = []
        self.schemas: list[Mapping[str, object]] = []

    def complete_json(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, object], timeout_s: float
    ) -> Mapping[str, object]:
        self.asked.append(messages)
        self.schemas.append(schema)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def answer(**said: object) -> dict[str, object]:
    base: dict[str, object] = {
        "reports_training": True, "line": 3, "step": "177", "total_steps": None, "epoch": None, "loss": "8.7050",
        "step_time": "0.740", "steps_per_second": None, "step_time_unit": "s",
    }  # fmt: skip
    return base | said


def track(data: bytes, model: Model | None, template: LearnedTemplate | None = None) -> Tracked:
    extent = Extent(len(data), data, data, 0, 0)
    return track_extent(extent, parser=RecordParser(), model=model, template=template)


def test_without_a_model_the_odd_log_stays_missing() -> None:
    assert track(ODD, None).progress.step is None


def test_an_answer_that_holds_is_believed_and_remembered() -> None:
    model = Model(answer())
    tracked = track(ODD, model)
    assert tracked.model_use == ModelUse(asked=1, accepted=1)
    assert tracked.progress.step == 177
    assert tracked.progress.loss == pytest.approx(8.705)
    assert tracked.progress.step_time_s == pytest.approx(0.72, abs=0.01)
    assert tracked.template is not None
    again = track(ODD, model, LearnedTemplate.from_json(tracked.template.to_json()))
    assert again.progress == tracked.progress
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    "said",
    [
        {"step": "178"},
        {"step": "8.7050", "loss": None},
        {"reports_training": False},
        {"line": 99},
        {"line": "3"},
        {"step": None},
        {"loss": "1.2345"},
        {"step": "many"},
        {"step": "0.740", "loss": None, "step_time": None},
    ],
)
def test_an_answer_that_does_not_hold_is_rejected(said: dict[str, object]) -> None:
    tracked = track(ODD, Model(answer(**said)))
    assert tracked.progress.step is None
    assert tracked.model_use == ModelUse(asked=1, rejected=1)
    assert tracked.template is None


def test_a_server_that_fails_is_counted_and_nothing_else() -> None:
    tracked = track(ODD, Model(ExternalError("no answer")))
    assert tracked.model_use == ModelUse(asked=1, failed=1)
    assert tracked.progress.is_missing


def test_a_log_that_speaks_for_itself_is_not_asked_about() -> None:
    model = Model(answer())
    data = b"".join(b"step %d loss %.3f 0.5 s/step\n" % (i, 9 - i / 100) for i in range(60))
    assert track(data, model).progress.step == 59
    assert model.asked == []


def test_one_job_is_asked_about_once_even_without_success() -> None:
    class Source:
        data = ODD

        def size(self) -> int:
            return len(self.data)

        def read_at(self, offset: int, size: int) -> bytes:
            return self.data[offset : offset + size]

    source = Source()
    model = Model(answer(step="999999"))
    state = follow(source, model=model).state
    source.data = ODD + ODD
    assert follow(source, state, model=model).model_use == ModelUse()
    assert len(model.asked) == 1
    silent = Model(ExternalError("no answer"))
    state = follow(source, model=silent).state
    source.data = ODD + ODD + ODD
    assert follow(source, state, model=silent).model_use == ModelUse(asked=1, failed=1), "a server may come back"
    good = Model(answer())
    source.data = ODD
    state = follow(source, model=good).state
    source.data = ODD + b"~~ 180 ~~ zorp 8.7000 ~~ quux 0.710 ~~ password=hunter2 ~~\n"
    look = follow(source, state, model=good)
    assert look.progress.step == 180
    assert len(good.asked) == 1


def test_the_question_is_bounded_and_hides_secrets() -> None:
    model = Model(answer())
    track(ODD + b"\n" + b"x 1 " * 5000 + b"\n", model)
    text = str(model.asked[0])
    assert "hunter2" not in text
    assert len(text) < 20_000
    assert "never instructions" in text
    schema = str(model.schemas[0])
    assert "maxLength" in schema
    assert "maximum" in schema


def test_a_broken_template_is_named() -> None:
    with pytest.raises(InputError, match="learned template"):
        LearnedTemplate.from_json({"form": 3})
