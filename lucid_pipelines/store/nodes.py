"""Node conditions: a stack of isolation reasons; each has an owner, a deadline and a way out (R-15, R-17)."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select, update

from lucid_pipelines.domain.errors import InputError, NotFoundError, StateError
from lucid_pipelines.store import tables
from lucid_pipelines.store.codec import reason_from_row
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.intents import insert_intent
from lucid_pipelines.store.records import IntentKind, NodeReason

_CONDITIONS = tables.node_conditions


class Nodes:
    """Why nodes and GPUs are kept out of use. ``attempts.place`` refuses what is isolated here."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def isolate(
        self,
        node: str,
        *,
        owner: str,
        reason: str,
        now: datetime,
        gpu_index: int | None = None,
        deadline: datetime | None = None,
        evidence: object = None,
        with_intent: bool = True,
    ) -> tuple[NodeReason, bool]:
        """Put a reason on the stack and, ``with_intent``, leave an intent ``isolate:<reason id>``.

        The same owner isolating the same node (or GPU) again changes nothing.

        Returns:
            The reason, and whether this call added it.
        """
        if not node or not owner or not reason:
            raise InputError(f"an isolation names its node, owner and reason; got {node!r}, {owner!r}, {reason!r}")
        scope = "node" if gpu_index is None else f"gpu {gpu_index}"
        row = {
            "node": node,
            "gpu_index": gpu_index,
            "scope": scope,
            "owner": owner,
            "reason": reason,
            "evidence": evidence,
            "since": now,
            "deadline": deadline,
        }

        def work(tx: Transaction) -> tuple[NodeReason, bool]:
            new_ids = tx.insert_new(_CONDITIONS, [row])
            same = (_CONDITIONS.c.node == node) & (_CONDITIONS.c.scope == scope) & (_CONDITIONS.c.owner == owner)
            in_force = select(_CONDITIONS).where(same, _CONDITIONS.c.lifted_at.is_(None))
            found = reason_from_row(tx.execute(in_force).mappings().one())
            if not new_ids:
                return found, False
            payload = {"node": node, "gpu_index": gpu_index, "owner": owner, "reason": reason}
            if with_intent:
                insert_intent(tx, key=f"isolate:{found.reason_id}", kind=IntentKind.ISOLATE, payload=payload, now=now)
            tx.touch()
            return found, True

        return self._database.write(work)

    def lift(self, reason_id: int, *, owner: str, by: str, now: datetime, with_intent: bool = True) -> NodeReason:
        """Take the owner's own reason off the stack; the intent ``restore:<reason id>`` follows ``with_intent``.

        Lifting it twice changes nothing.

        Raises:
            NotFoundError: no such reason.
            StateError: the reason belongs to another owner.
        """

        def work(tx: Transaction) -> NodeReason:
            query = select(_CONDITIONS).where(_CONDITIONS.c.id == reason_id).with_for_update()
            row = tx.execute(query).mappings().first()
            if row is None:
                raise NotFoundError(f"no isolation has this number: {reason_id}")
            if row["owner"] != owner:
                raise StateError(f"only its owner {row['owner']!r} lifts this isolation; not {owner!r}")
            if row["lifted_at"] is not None:
                return reason_from_row(row)
            lifted = {"lifted_at": now, "lifted_by": by}
            tx.execute(update(_CONDITIONS).where(_CONDITIONS.c.id == reason_id).values(lifted))
            payload = {"node": row["node"], "gpu_index": row["gpu_index"], "owner": owner}
            if with_intent:
                insert_intent(tx, key=f"restore:{reason_id}", kind=IntentKind.RESTORE, payload=payload, now=now)
            tx.touch()
            return reason_from_row(dict(row) | lifted)

        return self._database.write(work)

    def isolated(self, *, node: str | None = None) -> list[NodeReason]:
        """Reasons in force, oldest first."""
        query = select(_CONDITIONS).where(_CONDITIONS.c.lifted_at.is_(None)).order_by(_CONDITIONS.c.id)
        if node is not None:
            query = query.where(_CONDITIONS.c.node == node)
        return self._database.read(lambda c: [reason_from_row(row) for row in c.execute(query).mappings()])

    def overdue(self, *, now: datetime) -> list[NodeReason]:
        """Reasons in force whose deadline has passed: an alarm is due."""
        past = _CONDITIONS.c.lifted_at.is_(None) & (_CONDITIONS.c.deadline <= now)
        query = select(_CONDITIONS).where(past).order_by(_CONDITIONS.c.id)
        return self._database.read(lambda c: [reason_from_row(row) for row in c.execute(query).mappings()])

    def past(self, node: str, *, limit: int = 100) -> list[NodeReason]:
        """Reasons of a node that were lifted, newest first."""
        mine = (_CONDITIONS.c.node == node) & _CONDITIONS.c.lifted_at.is_not(None)
        query = select(_CONDITIONS).where(mine).order_by(_CONDITIONS.c.id.desc()).limit(limit)
        return self._database.read(lambda c: [reason_from_row(row) for row in c.execute(query).mappings()])
