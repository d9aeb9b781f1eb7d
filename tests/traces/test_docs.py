"""The documentation page says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lucid_pipelines.cli.traces import app
from lucid_pipelines.traces import CONTRACTS, FORMATS, contracts_markdown
from lucid_pipelines.traces.contract import Contract, Kind, Reason

PAGE = Path(__file__).parents[2] / "docs" / "traces.md"


def test_the_contracts_on_the_page_are_those_of_the_code() -> None:
    begin, end = "<!-- contracts:begin -->\n", "<!-- contracts:end -->"
    text = PAGE.read_text(encoding="utf-8")
    shown = text[text.index(begin) + len(begin) : text.index(end)]
    assert shown.strip() == contracts_markdown(CONTRACTS).strip(), "paste the output of contracts_markdown(CONTRACTS)"


def test_every_reason_is_explained() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [reason for reason in Reason if f"`{reason}`" not in text] == []


@pytest.mark.parametrize("contract", CONTRACTS, ids=FORMATS)
def test_contracts_are_complete(contract: Contract) -> None:
    assert contract.source
    assert contract.clock
    assert contract.invariants
    assert contract.oddities
    names = [name for column in contract.columns for name in (column.name, *column.aliases)]
    assert len(set(names)) == len(names)
    for column in contract.columns:
        assert column.meaning
        if column.kind is Kind.NUMBER and contract.format != "canonical":
            assert column.unit or column.name == "Restarts"


def test_snippets_name_real_options() -> None:
    text = PAGE.read_text(encoding="utf-8")
    commands = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    assert set(re.findall(r"^lucid traces (\w+)", text, flags=re.M)) <= commands
