"""State database: tables, migrations, repositories, outbox.

``Store.open(path or URL)`` is the only door. It migrates the database and offers one repository per subject:

============== ==================================================================================
``jobs``       submit, get, resolve, find, counts, transition, annotate, request_cancel, requeue, claim
``attempts``   place, record_started, request_stop, record_end; get, of_job, active
``queue``      ``view()``: all a scheduling pass needs; ``change_counter()``
``events``     the append-only story of every job, by cursor
``intents``    what must be done to the world, each once, claimed by a dispatcher
``exits``      outbox of ended attempts, claimed by the failure handler
``leases``     named rights with a token: acquire, renew, hand_over, release
``estimates``  predictions, stored before their outcome and scored after it
``advice``     what similar past jobs said of each job, and how it fared
``history``    one row per ended attempt; ``duration_stats`` as of any moment
``metrics``    GPU samples and job metrics, bounded per attempt
``tracking``   how far each attempt's log was followed, and what it said
``nodes``      isolation reasons with owner and deadline
``notices``    outbox of what people are told by webhook, mail or chat
``actions``    audit of what automations proposed, who decided, what came of it
``pairs``      attempts that share GPUs: planned, measured, verdict
``loans``      nodes that work for another virtual cluster for a while
``counters``, ``meta``  counts by name; small JSON values by key
============== ==================================================================================

Rules that hold everywhere: every method is one transaction and takes ``now`` from its caller; times are
timezone-aware UTC; every change of a job counts its ``version`` up, and every change of its state tells an
event (a claim changes neither); a lost claim or lease raises ``StaleLockError`` and the result is dropped;
what the database reports comes out as an error of ``domain.errors`` that says what to do. SQLite and
PostgreSQL behave alike.
"""

from lucid_pipelines.store.records import (
    Action,
    ActionState,
    ActiveAttempt,
    AdviceRow,
    AdviceVerdict,
    CancelResult,
    Claim,
    EndedAdvice,
    EndResult,
    EstimateRow,
    EstimateScore,
    Event,
    EventKind,
    Exit,
    Intent,
    IntentKind,
    JobChanges,
    LatestSample,
    Lease,
    Loan,
    MetricPoint,
    NodeReason,
    Pair,
    PairVerdict,
    QueueView,
    SlotUse,
    StoredNotice,
    Tracked,
)
from lucid_pipelines.store.store import Store

__all__ = [
    "Action",
    "ActionState",
    "ActiveAttempt",
    "AdviceRow",
    "AdviceVerdict",
    "CancelResult",
    "Claim",
    "EndResult",
    "EndedAdvice",
    "EstimateRow",
    "EstimateScore",
    "Event",
    "EventKind",
    "Exit",
    "Intent",
    "IntentKind",
    "JobChanges",
    "LatestSample",
    "Lease",
    "Loan",
    "MetricPoint",
    "NodeReason",
    "Pair",
    "PairVerdict",
    "QueueView",
    "SlotUse",
    "Store",
    "StoredNotice",
    "Tracked",
]
