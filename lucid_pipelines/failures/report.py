"""One page for people: what failed, where, why, what else was seen, what was done, what to do (Markdown)."""

from __future__ import annotations

import re

from lucid_pipelines.failures.evidence import Finding, could_not_start
from lucid_pipelines.failures.facts import FailureFacts
from lucid_pipelines.failures.plan import CheckSummary, DiagnosisPlan
from lucid_pipelines.failures.policy import (
    Decision,
    IsolationDecision,
    IsolationVerb,
    RestartDecision,
    RestartVerb,
    Standing,
)
from lucid_pipelines.failures.vocabulary import Ending
from lucid_pipelines.redaction import redacted

_MAX_TEXT = 240
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


def report_page(
    facts: FailureFacts,
    finding: Finding,
    decision: Decision | None = None,
    plan: DiagnosisPlan | None = None,
    checks: CheckSummary | None = None,
) -> str:
    """Write the page. Log lines are quoted as data: no Markdown or HTML of theirs takes effect, secrets are hidden."""
    sections = [
        _title(facts, finding),
        _what(facts, finding),
        _evidence(finding),
        _aside(finding),
        _tests(plan, checks),
        _done(decision),
        _todo(facts, finding, decision),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def headline(facts: FailureFacts, finding: Finding) -> str:
    """One line, for a chat message or the subject of an e-mail."""
    who = f"{facts.job.spec.name} ({facts.job.job_id}, attempt {facts.attempt.number}, {facts.job.spec.user})"
    return f"{who}: {_blame(finding)}"


def _title(facts: FailureFacts, finding: Finding) -> str:
    return f"# {_plain(headline(facts, finding))}"


def _blame(finding: Finding) -> str:
    if finding.ending is not Ending.FAILED:
        return finding.ending.value.replace("_", " ")
    if finding.category is None:
        return "failed, cause unknown"
    family = finding.diagnosis.classified.family
    part = f", {finding.component.value}" if finding.component is not None else ""
    title = f": {family.title}" if family is not None and family.category is finding.category else ""
    return f"failed, {finding.category.value.replace('_', ' ')}{part}{title}"


def _what(facts: FailureFacts, finding: Finding) -> str:
    d = finding.diagnosis
    where = (
        f"line {d.root_line}"
        if d.root_line is not None
        else f"byte {d.root_offset}"
        if d.root_offset is not None
        else "none"
    )
    rank = f", rank {d.root_rank}" if d.root_rank is not None else ""
    place = "found in" if where == "none" else "of"
    end = "not observed" if facts.exit is None else _exit(facts)
    rows = [
        ("Ran on", str(facts.placement)),
        ("Ended", f"{end} (as of {facts.as_of:%Y-%m-%d %H:%M:%S} UTC)"),
        ("First true error", f"{where}{rank} {place} {d.file}"),
        ("Suspected", ", ".join(map(str, finding.suspects)) or "no part by name"),
        ("Confidence", f"{finding.confidence:.2f}"),
        ("Decided by", finding.basis),
    ]
    return "## What\n\n| | |\n|---|---|\n" + "\n".join(f"| {name} | {_plain(value)} |" for name, value in rows)


def _exit(facts: FailureFacts) -> str:
    assert facts.exit is not None
    how = f"exit code {facts.exit.exit_code}" if facts.exit.exit_code is not None else f"signal {facts.exit.signal}"
    return f"{facts.exit.ended_at:%Y-%m-%d %H:%M:%S}, {facts.exit.reason}, {how}"


def _evidence(finding: Finding) -> str:
    lines = [
        f"- {_where(row.line)}{_quoted(row.text)} {_plain(row.why)}"
        for row in finding.diagnosis.evidence
        if not row.why.startswith("not the cause")
    ]
    lines += [
        f"- {t.witness.value} {'accuses' if t.accuses else 'clears'}: {_plain(t.text)}" for t in finding.testimony
    ]
    lines += [f"- note: {_plain(note)}" for note in finding.notes]
    return "## Evidence\n\n" + "\n".join(lines) if lines else ""


def _aside(finding: Finding) -> str:
    located = finding.diagnosis.located
    lines = [f"- {_where(a.record.number)}{_quoted(a.record.text)} {_plain(a.why)}" for a in located.set_aside[:10]]
    echo_count = len(located.echoes) + len(located.echo_numbers)
    if echo_count:
        lines.append(f"- {echo_count} lines are echoes: other ranks, launchers, processes that were killed")
    if located.times_disagree:
        lines.append("- some lines stand in another order than their timestamps")
    return "## What else was seen, and why it is not the cause\n\n" + "\n".join(lines) if lines else ""


def _tests(plan: DiagnosisPlan | None, checks: CheckSummary | None) -> str:
    if plan is None or (not plan.checks and checks is None):
        return ""
    lines = [f"- planned on {_plain(c.node)}: {c.test.name} (at most {c.test.timeout_s:.0f} s)" for c in plan.checks]
    if checks is not None:
        for word, results in (
            ("failed", checks.failed),
            ("passed", checks.passed),
            ("could not be run", checks.not_run),
        ):
            lines += [f"- {word}: {r.test} on {_plain(r.node)}: {_plain(r.detail[:_MAX_TEXT])}" for r in results]
    return f"## Tests\n\n{_plain(plan.reason)}\n\n" + "\n".join(lines)


def _done(decision: Decision | None) -> str:
    if decision is None:
        return ""
    lines = [f"- {_restart(decision.restart)}", *(f"- {_isolation(i)}" for i in decision.isolations)]
    if decision.is_mass_failure:
        lines.append("- many jobs failed at the same time: look for a shared cause (network, storage, power) first")
    return "## What was done\n\n" + "\n".join(lines)


_STANDING = {
    Standing.ACT: "will be done",
    Standing.AWAIT_APPROVAL: "waits for a person to approve",
    Standing.RECORD_ONLY: "recorded only (shadow)",
    Standing.OFF: "switched off",
}


def _restart(d: RestartDecision) -> str:
    when = f", not before {d.not_before:%Y-%m-%d %H:%M:%S} UTC" if d.not_before is not None else ""
    place = f", avoiding {', '.join(map(str, d.avoid))}" if d.verb is RestartVerb.RESTART and d.avoid else ""
    source = f", from {d.checkpoint.path}" if d.checkpoint is not None else ""
    standing = f", {_STANDING[d.standing]}" if d.verb in (RestartVerb.RESTART, RestartVerb.ASK) else ""
    return _plain(f"job: {d.verb.value}{standing}{when}{source}{place}. {d.rule}")


def _isolation(d: IsolationDecision) -> str:
    until = f", to be decided about again by {d.decide_by:%Y-%m-%d %H:%M} UTC" if d.decide_by is not None else ""
    alarm = " **A person should look now.**" if d.is_alarm else ""
    standing = f", {_STANDING[d.standing]}" if d.verb is IsolationVerb.ISOLATE else ""
    return _plain(f"{d.suspect or 'no part'}: {d.verb.value}{standing}{until}. {d.rule}") + alarm


def _todo(facts: FailureFacts, finding: Finding, decision: Decision | None) -> str:
    advice = finding.diagnosis.advice
    if could_not_start(facts):
        detail = facts.exit.detail if facts.exit is not None else None
        advice = f"Mend the command and submit the job again: {detail or 'it could not be started'}."
    lines = [f"- {_plain(advice)}"]
    if (
        decision is not None
        and decision.restart.standing is Standing.AWAIT_APPROVAL
        and decision.restart.verb is RestartVerb.RESTART
    ):
        lines.append("- Approve or refuse the restart with `lucid actions`.")
    return "## What to do\n\n" + "\n".join(lines)


def _where(number: int | None) -> str:
    return f"line {number}: " if number is not None else ""


def _quoted(text: str) -> str:
    """A log line as inline code that it cannot break out of."""
    clean = redacted(" ".join(text.split()))[:_MAX_TEXT].replace("`", "'").replace("|", "\\|")
    return f"`{clean}`" if clean else "`(empty)`"


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", redacted(" ".join(str(text).split())))
