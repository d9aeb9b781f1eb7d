"""The real clock behind the ``Clock`` port."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """Time as the machine tells it, timezone-aware UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, duration_s: float) -> None:
        time.sleep(duration_s)
