"""Which models exist and which one is in service: files below one root, and a journal of changes.

Layout: ``ROOT/KIND/VERSION.json`` and ``ROOT/KIND/changes.jsonl``. A model file is written under another name and
renamed; the journal only grows, and its last whole line says what is in service. So a process that is killed at
any moment leaves either the old state or the new one.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import EllipsisType
from typing import Any

from lucid_pipelines.domain.errors import InputError, LucidError, NotFoundError, StateError, did_you_mean
from lucid_pipelines.models.artefacts.document import ArtefactError, Header, describe
from lucid_pipelines.models.kinds import ModelKind
from lucid_pipelines.whole_files import whole_file

_JOURNAL = "changes.jsonl"
_LOCK = ".lock"
_VERSION = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the journal: a version was put in service.

    Attributes:
        action: ``promote`` or ``rollback``.
        previous: what was in service before; ``None`` = nothing.
    """

    action: str
    version: str
    previous: str | None
    who: str
    why: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Entry:
    """A kept model.

    Attributes:
        header: ``None`` when the file cannot be used; ``fault`` says why.
    """

    version: str
    in_service: bool
    header: Header | None
    fault: str | None = None


class Registry:
    """The models of one home folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def keep(self, document: Mapping[str, Any]) -> str:
        """Store a model; it is not put in service. Keeping the same model twice keeps it once.

        Returns:
            Its version.

        Raises:
            ArtefactError: the document is not whole.
        """
        header = describe(document)
        path = self._path(header.kind, header.version)
        if not self._is_whole(header):
            with whole_file(path, is_durable=True) as temporary, temporary.open("w", encoding="utf-8") as file:
                json.dump(document, file, allow_nan=False, separators=(",", ":"))
        return header.version

    def read(self, kind: ModelKind, version: str | None = None) -> dict[str, Any]:
        """The document of a version, default the one in service.

        Raises:
            NotFoundError: no such version, or nothing is in service.
            ArtefactError: the file is damaged.
        """
        chosen = version or self.in_service(kind)
        if chosen is None:
            raise NotFoundError(f"no {kind} model is in service yet; train one and promote it")
        path = self._path(kind, chosen)
        try:
            document: Any = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            known = self.versions(kind)
            hint = did_you_mean(chosen, known) or f"; kept: {self._listed(kind)}"
            raise NotFoundError(f"there is no {kind} model {chosen!r}{hint}") from error
        except (OSError, ValueError, RecursionError) as error:
            raise ArtefactError(
                f"the model file is damaged and cannot be read; train it again or restore it: {path}: {error}"
            ) from error
        if not isinstance(document, dict):
            raise ArtefactError(f"the model file is no JSON object: {chosen}")
        return document

    def versions(self, kind: ModelKind) -> list[str]:
        """Kept versions, oldest first."""
        folder = self.root / kind.value
        return sorted(path.stem for path in folder.glob("*.json")) if folder.is_dir() else []

    def entries(self, kind: ModelKind) -> list[Entry]:
        """Kept models, oldest first, damaged ones included."""
        current = self.in_service(kind)
        found: list[Entry] = []
        for version in self.versions(kind):
            try:
                header, fault = describe(self.read(kind, version)), None
            except ArtefactError as error:
                header, fault = None, str(error)
            found.append(Entry(version, version == current, header, fault))
        return found

    def in_service(self, kind: ModelKind) -> str | None:
        """The version in service; ``None`` = none yet."""
        history = self.history(kind)
        return history[-1].version if history else None

    def history(self, kind: ModelKind) -> list[Change]:
        """What was put in service, oldest first. A torn last line is one that was never finished."""
        path = self.root / kind.value / _JOURNAL
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1].decode("utf-8", errors="replace")
        return [_read_change(line, path) for line in whole.splitlines() if line.strip()]

    def promote(
        self,
        kind: ModelKind,
        version: str,
        *,
        who: str,
        why: str,
        now: datetime | None = None,
        instead_of: str | EllipsisType | None = ...,
    ) -> Change:
        """Put a kept version in service. Promoting what is in service changes nothing and returns its last change.

        Args:
            instead_of: the version beside which it was judged, ``None`` = nothing was in service; default: whatever.

        Raises:
            NotFoundError: no such version.
            ArtefactError: the file is damaged; a damaged model is never put in service.
            StateError: another one than ``instead_of`` is in service by now.
        """
        with self._locked(kind):
            history = self.history(kind)
            if history and history[-1].version == version:
                return history[-1]
            present = history[-1].version if history else None
            if instead_of is not ... and present != instead_of:
                judged, found = instead_of or "no model", present or "no model"
                raise StateError(
                    f"{version} was judged beside {judged}, but {found} is in service now; "
                    "train again, or promote it by hand"
                )
            return self._put(kind, "promote", version, present, who, why, now)

    def rollback(self, kind: ModelKind, *, who: str, why: str, now: datetime | None = None) -> Change:
        """Put back in service what was there before the last promotion; a second rollback goes one further.

        Raises:
            StateError: there is nothing before.
            ArtefactError: the file of what was there before is damaged; promote another.
        """
        # What is in service and what was before it are read under one lock: a promotion that comes between would be
        # undone together with the one that was meant.
        with self._locked(kind):
            history = self.history(kind)
            target = self._before(history)
            if target is None:
                raise StateError(f"no earlier {kind} model was in service; promote one of: {self._listed(kind)}")
            return self._put(kind, "rollback", target, history[-1].version, who, why, now)

    def _put(
        self, kind: ModelKind, action: str, version: str, previous: str | None, who: str, why: str, now: datetime | None
    ) -> Change:
        describe(self.read(kind, version))
        change = Change(action, version, previous, who, why, (now or datetime.now(UTC)).astimezone(UTC))
        self._append(kind, change)
        return change

    def _is_whole(self, header: Header) -> bool:
        """Whether the file of this version is there and undamaged."""
        try:
            return describe(self.read(header.kind, header.version)).digest == header.digest
        except LucidError:
            return False

    @staticmethod
    def _before(history: list[Change]) -> str | None:
        """What was in service before: promotions build a stack, a rollback takes one off."""
        stack: list[str] = []
        for change in history:
            if change.action == "rollback":
                while stack and stack[-1] != change.version:
                    stack.pop()
                if not stack:
                    stack.append(change.version)
            else:
                stack.append(change.version)
        return stack[-2] if len(stack) > 1 else None

    def _listed(self, kind: ModelKind) -> str:
        return ", ".join(self.versions(kind)[:-6:-1]) or "none is kept"

    def _path(self, kind: ModelKind, version: str) -> Path:
        if not _VERSION.match(version):
            raise InputError(f"a version holds letters, digits, dots, dashes and underscores; not {version!r}")
        return self.root / kind.value / f"{version}.json"

    def _append(self, kind: ModelKind, change: Change) -> None:
        path = self.root / kind.value / _JOURNAL
        record = {
            "action": change.action,
            "version": change.version,
            "previous": change.previous,
            "who": change.who,
            "why": change.why,
            "at": change.at.isoformat(),
        }
        with path.open("ab") as file:
            # What a killed writer left behind must not become part of this line.
            torn = path.read_bytes()
            if torn and not torn.endswith(b"\n"):
                os.ftruncate(file.fileno(), torn.rfind(b"\n") + 1)
            file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    @contextmanager
    def _locked(self, kind: ModelKind) -> Iterator[None]:
        folder = self.root / kind.value
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / _LOCK).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _read_change(line: str, path: Path) -> Change:
    try:
        record = json.loads(line)
        return Change(
            str(record["action"]),
            str(record["version"]),
            None if record["previous"] is None else str(record["previous"]),
            str(record["who"]),
            str(record["why"]),
            datetime.fromisoformat(record["at"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ArtefactError(f"the journal of models is damaged; mend or remove the line in {path}: {line!r}") from error
