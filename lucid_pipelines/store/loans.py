"""Loans: nodes that work for another virtual cluster for a while. A node with a job on it never moves."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, select, update

from lucid_pipelines.domain.errors import InputError, StateError
from lucid_pipelines.store import tables
from lucid_pipelines.store.codec import loan_from_row
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.records import Loan

_LOANS = tables.node_loans
_SLOTS = tables.gpu_slots


class Loans:
    """Who works for whom."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def out(self) -> list[Loan]:
        """Nodes that are lent now, oldest loan first."""
        query = select(_LOANS).where(_LOANS.c.returned_at.is_(None)).order_by(_LOANS.c.id)
        return self._database.read(lambda c: [loan_from_row(row) for row in c.execute(query).mappings()])

    def past(self, *, limit: int = 100) -> list[Loan]:
        """Loans that came back, newest first."""
        query = select(_LOANS).where(_LOANS.c.returned_at.is_not(None)).order_by(_LOANS.c.id.desc()).limit(limit)
        return self._database.read(lambda c: [loan_from_row(row) for row in c.execute(query).mappings()])

    def lend(self, node: str, from_vc: str, to_vc: str, *, now: datetime, reasons: object = None) -> tuple[Loan, bool]:
        """Let an idle node work for another virtual cluster. The same loan again changes nothing.

        Returns:
            The loan, and whether this call made it.

        Raises:
            StateError: a job holds one of its GPUs, or it is lent to somebody else.
        """
        if from_vc == to_vc:
            raise InputError(f"a node is lent to another virtual cluster than its own; got {to_vc!r} twice")

        def work(tx: Transaction) -> tuple[Loan, bool]:
            _require_idle(tx, node)
            row = {"node": node, "from_vc": from_vc, "to_vc": to_vc, "since": now, "reasons": reasons}
            is_new = bool(tx.insert_new(_LOANS, [row]))
            loan = loan_from_row(tx.execute(select(_LOANS).where(_is_out(node))).mappings().one())
            if loan.to_vc != to_vc:
                raise StateError(f"the node is lent already, to {loan.to_vc}: {node}")
            if is_new:
                tx.touch()
            return loan, is_new

        return self._database.write(work)

    def give_back(self, node: str, *, now: datetime, reasons: object = None) -> bool:
        """End a node's loan. Returns ``False`` when it was not lent.

        Raises:
            StateError: a job holds one of its GPUs.
        """

        def work(tx: Transaction) -> bool:
            if tx.execute(select(_LOANS.c.id).where(_is_out(node))).first() is None:
                return False
            _require_idle(tx, node)
            back = {"returned_at": now, "return_reasons": reasons}
            tx.execute(update(_LOANS).where(_is_out(node)).values(back))
            tx.touch()
            return True

        return self._database.write(work)


def _is_out(node: str) -> ColumnElement[bool]:
    return (_LOANS.c.node == node) & _LOANS.c.returned_at.is_(None)


def _require_idle(tx: Transaction, node: str) -> None:
    holder = tx.execute(select(_SLOTS.c.attempt_id).where(_SLOTS.c.node == node).limit(1)).scalar()
    if holder is not None:
        raise StateError(f"a node that a job holds stays where it is; {node} is held by {holder}")
