"""The contracts as text for the documentation; a test keeps the page equal to it."""

from __future__ import annotations

from collections.abc import Iterable

from lucid_pipelines.traces.contract import Column, Contract


def contracts_markdown(contracts: Iterable[Contract]) -> str:
    """One section per format: source, clock, columns, invariants, oddities."""
    return "\n".join(_section(contract) for contract in contracts)


def _section(contract: Contract) -> str:
    lines = [
        f"### `{contract.format}`: {contract.title}",
        "",
        f"Source: {contract.source}.",
        f"Clock: {contract.clock}.",
    ]
    if contract.headerless:
        lines.append("The public file has no header line; columns are in this order.")
    lines += ["", "| column | unit | meaning |", "|---|---|---|", *(_row(column) for column in contract.columns)]
    for title, facts in (("Invariants", contract.invariants), ("Known oddities", contract.oddities)):
        if facts:
            lines += ["", f"{title}:", "", *(f"- {fact}" for fact in facts)]
    return "\n".join([*lines, ""])


def _row(column: Column) -> str:
    names = " or ".join(f"`{name}`" for name in (column.name, *column.aliases))
    kind = "" if column.required and not column.nullable else " (may be empty)" if column.required else " (optional)"
    return f"| {names}{kind} | {column.unit or column.kind.value} | {column.meaning.replace('|', 'or')} |"
