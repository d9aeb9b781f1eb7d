"""Actions: the audit trail of automations in mode shadow, approve and live (ARCHITECTURE section 2, idea 4)."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, select

from lucid_pipelines.domain.errors import InputError, NotFoundError, StateError
from lucid_pipelines.domain.states import Mode
from lucid_pipelines.store import tables
from lucid_pipelines.store.codec import action_from_row
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.records import Action, ActionState, Json
from lucid_pipelines.store.statements import key_values, select_by

_ACTIONS = tables.actions
_EMPTY: dict[str, Any] = {column.name: None for column in _ACTIONS.columns}
_BY_KEYS = select(_ACTIONS).where(_ACTIONS.c.key.in_(bindparam("keys", expanding=True)))


class Actions:
    """What automations wanted to do, who decided, and what came of it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def propose(
        self,
        kind: str,
        target: str,
        mode: Mode,
        payload: Json,
        *,
        why: str,
        now: datetime,
        key: str | None = None,
    ) -> tuple[Action, bool]:
        """Record a proposal. A ``key`` that exists returns the first action and ``False``.

        A proposal that nobody has decided goes on under the present mode, when a site has changed it meanwhile.
        """
        if mode is Mode.OFF:
            raise InputError(f"an automation that is off proposes nothing; got {kind!r} for {target!r}")
        row = {
            "key": key,
            "kind": kind,
            "target": target,
            "mode": mode.value,
            "state": ActionState.PROPOSED.value,
            "why": why,
            "payload": dict(payload),
            "proposed_at": now,
        }

        def work(tx: Transaction) -> tuple[Action, bool]:
            numbers = tx.insert_new(_ACTIONS, [row])
            if not numbers:
                first = dict(tx.execute(select_by(_ACTIONS, "key"), key_values({"key": key})).mappings().one())
                if first["state"] == ActionState.PROPOSED and first["mode"] != mode.value:
                    first = _locked(tx, first["id"])
                    if first["state"] == ActionState.PROPOSED:
                        return _changed(tx, first, {"mode": mode.value}), False
                return action_from_row(first), False
            tx.touch()
            return action_from_row(_EMPTY | row | {"id": numbers[0]}), True

        return self._database.write(work)

    def decide(self, action_id: int, *, approve: bool, person: str, now: datetime, reopen: bool = False) -> Action:
        """A named person approves or rejects a proposal. The same decision again changes nothing.

        Args:
            reopen: also decide what was only recorded in mode ``shadow``: the site asks people now.

        Raises:
            StateError: it is decided otherwise, executed, only shadow, or its payload's ``lapses_at`` is past.
            NotFoundError: there is no such action.
        """
        if not person.strip():
            raise InputError(f"a decision needs the name of a person; got {person!r}")
        wanted = ActionState.APPROVED if approve else ActionState.REJECTED

        def work(tx: Transaction) -> Action:
            row = _locked(tx, action_id)
            if row["state"] == wanted:
                return action_from_row(row)
            lapsed_at = _lapsed_at(row, now) if approve else None
            if lapsed_at is not None:
                raise StateError(
                    f"the request lapsed at {lapsed_at:%Y-%m-%d %H:%M} UTC, and what it rests on may no longer hold;"
                    f" resubmit the job, or reject the request: {action_id}"
                )
            if row["mode"] == Mode.SHADOW and not reopen:
                raise StateError(
                    f"action {action_id} is only recorded: modes.{row['kind']} is shadow, and nobody decides it; "
                    "with approve, it and what is proposed next wait for a yes"
                )
            if row["state"] != ActionState.PROPOSED:
                by = f" by {row['person']}" if row["person"] else ""
                raise StateError(f"only a proposed action is decided; {action_id} is {row['state']}{by}")
            decided = {"state": wanted.value, "decided_at": now, "person": person}
            return _changed(tx, row, decided | ({"mode": Mode.APPROVE.value} if reopen else {}))

        return self._database.write(work)

    def executed(self, action_id: int, *, now: datetime, result: Json | None = None, failed: bool = False) -> Action:
        """Note that the action was carried out (or failed). A second call changes nothing.

        Raises:
            StateError: mode ``approve`` without an approval, a rejected action, or mode ``shadow``.
        """
        state = ActionState.FAILED if failed else ActionState.EXECUTED

        def work(tx: Transaction) -> Action:
            row = _locked(tx, action_id)
            if row["state"] in (ActionState.EXECUTED, ActionState.FAILED):
                return action_from_row(row)
            allowed = row["state"] == ActionState.APPROVED or (
                row["mode"] == Mode.LIVE and row["state"] == ActionState.PROPOSED
            )
            if not allowed:
                raise StateError(f"the action is not approved; {action_id} is {row['state']} in mode {row['mode']}")
            document = None if result is None else dict(result)
            return _changed(tx, row, {"state": state.value, "executed_at": now, "result": document})

        return self._database.write(work)

    def score(self, action_id: int, score: Json, *, now: datetime) -> Action:
        """Record what came, or would have come, of the action."""
        return self._database.write(
            lambda tx: _changed(tx, _locked(tx, action_id), {"scored_at": now, "score": dict(score)})
        )

    def get(self, action_id: int) -> Action:
        """Raises ``NotFoundError``."""
        _check_number(action_id)
        query = select(_ACTIONS).where(_ACTIONS.c.id == action_id)
        row = self._database.read(lambda c: c.execute(query).mappings().first())
        if row is None:
            raise NotFoundError(f"no action has this number: {action_id}")
        return action_from_row(row)

    def by_keys(self, keys: Collection[str]) -> dict[str, Action]:
        """The actions that have these keys."""
        if not keys:
            return {}
        rows = self._database.rows(_BY_KEYS, {"keys": sorted(keys)})
        return {row["key"]: action_from_row(row) for row in rows}

    def find(
        self,
        *,
        states: Collection[ActionState] | None = None,
        modes: Collection[Mode] | None = None,
        kind: str | None = None,
        target: str | None = None,
        scored: bool | None = None,
        limit: int = 100,
    ) -> list[Action]:
        """Actions that meet every filter given, newest first."""
        query = select(_ACTIONS).order_by(_ACTIONS.c.id.desc()).limit(limit)
        if states is not None:
            query = query.where(_ACTIONS.c.state.in_(sorted(state.value for state in states)))
        if modes is not None:
            query = query.where(_ACTIONS.c.mode.in_(sorted(mode.value for mode in modes)))
        if kind is not None:
            query = query.where(_ACTIONS.c.kind == kind)
        if target is not None:
            query = query.where(_ACTIONS.c.target == target)
        if scored is not None:
            query = query.where(_ACTIONS.c.scored_at.is_not(None) if scored else _ACTIONS.c.scored_at.is_(None))
        return [action_from_row(row) for row in self._database.rows(query)]


def _check_number(action_id: int) -> None:
    """No database knows how to look for a number of more than 63 bits."""
    if not 0 < action_id < 2**63:
        raise NotFoundError(f"no action has this number: {action_id}")


def _lapsed_at(row: dict[str, Any], now: datetime) -> datetime | None:
    """When a request that still waits lapsed; ``None`` while it holds."""
    text = row["payload"].get("lapses_at") if row["state"] == ActionState.PROPOSED else None
    lapses_at = datetime.fromisoformat(text) if isinstance(text, str) else None
    return lapses_at if lapses_at is not None and lapses_at < now else None


def _locked(tx: Transaction, action_id: int) -> dict[str, Any]:
    _check_number(action_id)
    row = tx.locked(_ACTIONS, id=action_id)
    if row is None:
        raise NotFoundError(f"no action has this number: {action_id}")
    return row


def _changed(tx: Transaction, row: dict[str, Any], values: dict[str, Any]) -> Action:
    tx.change(_ACTIONS, values, id=row["id"])
    tx.touch()
    return action_from_row(row | values)
