"""How training logs write a number, its name and its unit: the one place that knows (no framework is named).

Key-value pairs, JSON and Python dictionaries, tqdm and Keras bars, bracketed counters, sentences and table cells
come out alike, as :class:`Found`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lucid_pipelines.logs import find_time
from lucid_pipelines.tracker.records import Field, Kind

MAX_FIELDS = 64
"""More numbers than this in one record are a dump, not a report."""


class Found(NamedTuple):
    """One number as it stands in a text: where its digits are and how to read them.

    ``span`` covers the digits (of a duration, all of it); ``total_span`` those of a denominator; ``end`` is where
    reading goes on.
    """

    field: Field
    span: tuple[int, int]
    sign: float
    factor: float
    total_span: tuple[int, int] | None
    total_factor: float
    constant: float | None
    end: int


def squeeze(text: str) -> str:
    """``text`` with bars reduced to one mark and long runs of spaces to two: states of one bar become alike."""
    if _GLYPH.search(text):
        text = _GLYPHS.sub("  ", text)
    if "%|" in text or "% |" in text:
        text = _TQDM_BAR.sub("%| ", text)
    if "[" in text or "|" in text:
        text = _ASCII_BAR.sub(" ", text)
    if "," in text and _CSV.fullmatch(text):
        text = text.replace(",", ", ")
    if "," in text and _DECIMAL_COMMA.search(text) and not _DECIMAL_POINT.search(text):
        text = _COMMA_INSIDE.sub(".", text)
    if "...." in text:
        text = _LEADERS.sub(": ", text)
    if "PT" in text:
        text = _ISO_DURATION.sub(_spelt_out, text)
    return _SPACES.sub("  ", text) if "   " in text else text


def blank_noise(text: str) -> str:
    """Blank out what looks like numbers but says nothing; every other character keeps its place.

    Timestamps, thread numbers, source positions, addresses, versions, paths, file names and wrappers such as
    ``tensor(…)`` are noise.
    """
    if match := _GLOG.match(text):
        text = _spaces(match) + text[match.end() :]
    for _ in range(2):
        time = find_time(text)
        if time is None:
            break
        start, end = time.span
        text = text[:start] + " " * (end - start) + text[end:]
    text = _NOISE.sub(_last_word, _WRAPPER.sub(_spaces, text))
    return _LEVEL.sub(_spaces, text)


def read_fields(text: str) -> list[Found]:
    """Every number of a blanked text, in order; at most ``MAX_FIELDS``."""
    found: list[Found] = []
    position = 0
    while len(found) < MAX_FIELDS:
        match = _VALUE.search(text, position)
        if match is None:
            break
        item, position = _read(text, match, text[position : match.start()], found)
        found.append(item)
    return found


_NUM = r"(?:[1-9]\d{0,2}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)"
NUMBER = re.compile(f"({_NUM})")
"""The digits of a number, without its sign."""
_DAYS, _HOURS, _MINUTES, _SECONDS = (
    "(?:days?|d|天)",
    "(?:hours?|hrs?|h|小时)",
    "(?:minutes?|mins?|m|分钟?)",
    "(?:seconds?|secs?|s|秒)",
)
_VALUE = re.compile(
    r"(?<![A-Za-z0-9_.\\@])(?<!\d[-:])(?<![A-Za-z]-)(?:"
    r"(?P<dur>(?:\d+ ?(?:days?|d),? ?)?\d+:\d\d:\d\d(?:\.\d+)?(?![\d:])(?:s(?![A-Za-z]))?"
    r"|\d{1,3}:\d\d(?:\.\d+)?(?![\d:])"
    rf"|\d+ ?{_DAYS},? ?\d+ ?{_HOURS}(?:,? ?\d+ ?{_MINUTES})?(?:,? ?[\d.]+ ?{_SECONDS})?"
    rf"|\d+ ?{_HOURS},? ?\d+ ?{_MINUTES}(?:,? ?[\d.]+ ?{_SECONDS})?"
    rf"|\d+ ?{_MINUTES},? ?[\d.]+ ?{_SECONDS})(?![A-Za-z\d])"
    rf"|(?P<sign>[-+]?)(?P<num>{_NUM})|[-+]?(?P<odd>nan|inf|NaN|Inf|NAN|INF)\b"
    r")"
)
_DENOMINATOR = re.compile(
    rf"(?P<k3>[kKMGT]?)it/(?P<total3>{_NUM})(?P<k4>[kKMGT]?)it\b"
    r"|(?P<k>[kKMGT]?)(?P<noun>[a-z]{0,4}|[步轮次批]) *(?:/共?|\bof\b|\bout of\b|，?共) *"
    rf"(?P<total>{_NUM})(?P<k2>[kKMGT](?![a-zA-Z]))?"
)
_RANGE = re.compile(r"- {0,6}(\d+)(?![\d.-])")
_KEYED = re.compile(r"[\"'](?:key|name|metric|tag)[\"']: ?[\"']([^\"']{1,60})[\"']")
_COUNT_NOUN = (
    r"(?:steps?|iters?|iterations?|its?|batch(?:es)?|updates?|epochs?|samples?|images?|imgs?|examples?|tokens?|toks?|"
    r"words?|frames?|seqs?|sequences?|sents?|sentences?|docs?|documents?|episodes?|ba|ep|rounds?|records?|requests?|files?|"
    r"轮|步|次迭代|次更新|批次?)"
)
_FOREIGN_SECONDS = r"sekund(?:e|en|y|er)?|secondes?|segundos?|second[io]|seconden|saniye|giây|sn|с|сек|секунд[аы]?"
_TIME_UNIT = (
    r"(?:ns|us|µs|μs|ms|msecs?|milliseconds?|secs?|seconds?|s|mins?|minutes?|hrs?|hours?|h|days?"
    rf"|{_FOREIGN_SECONDS})"
)
_UNIT = re.compile(
    r" ?(?P<unit>"
    rf"{_TIME_UNIT} ?/ ?(?:\d+ ?)?[A-Za-z_\u00c0-\u024f\u0400-\u04ff\u1e00-\u1eff]+(?:/[A-Za-z]+)?"
    rf"|{_TIME_UNIT} per [a-z]+"
    r"|[kKMGTP]?FLOPS?(?:/s)?(?:/GPU)?"
    r"|[A-Za-z_]{1,14} ?/ ?(?:s|sec|secs|second|min)\b(?:/[A-Za-z]+)?"
    r"|[a-z]{1,14} per sec(?:ond)?\b"
    r"|/ ?s(?:ec)?\b(?:/[A-Za-z]+)?|[步个张条样本]{1,2}/秒|秒/[步轮个]"
    rf"|{_TIME_UNIT}(?![\w/])|m(?=[^\w]*$)"
    r"|[kKMGT]i?[Bb](?![\w/])"
    rf"|{_COUNT_NOUN}(?![\w/=:])"
    r"|[%％]|[轮步秒]|毫秒|分钟|小时|(?:GHz|MHz|W|C|°C|dB)\b"
    r")"
)
_SCALE = re.compile(r"([kKMGT])(?![A-Za-z\d/])")
_SCALES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_ATTACHED_NOUN = re.compile(_COUNT_NOUN + r"(?![\w/])")
_NOUN_BEHIND = re.compile(r" ?(" + _COUNT_NOUN + r")(?![\w/=])(?! *[:=])")
_ONE_NOUN = re.compile(_COUNT_NOUN)
_BEFORE_NOUN = frozenset(
    ["", "第", "after", "at", "over", "for", "finished", "completed", "done", "ran", "processed", "total of", "on"]
)
_NAMEABLE = re.compile(rf"%|{_TIME_UNIT}")
_WITHIN = re.compile(r"\w in +$")
"""``from 8 clients in 3.2 s``: the time is not the clients'."""
_NAME_BEHIND = re.compile(r" +([A-Za-z][A-Za-z_]*(?: [A-Za-z_]+){0,2})(?= *(?:[,;|)·•]|$))")

_STRIP_LEFT = re.compile(
    r"[\s\"'`({\[<>~≈≃#$*+|\-\\]*(?P<tie>[:=：]|->|=>|(?<![\w-])(?:is|of|at|was)\b)?[\s\"'`({\[<>~≈#$*+|\-\\:=]*$"
)
_QUALIFIER = re.compile(r"[(\[]([^()\[\]]{1,40})[)\]]$")
_SEGMENT = re.compile(
    r"[,;|\t{}\[\]()<>\"`•·∙‧・:=：，。；！!?\\]|'(?!s\b)| {2,}|(?<= )[-–—*>](?= )|^[-–—*>]+(?= )|\.{2,}|^/"
)
_WORD = re.compile(r"\S+")
_LETTERS = "A-Za-z\u00c0-\u024f\u0370-\u052f\u1e00-\u1eff\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3"
WORDS = re.compile(rf"[{_LETTERS}_./-]*[{_LETTERS}]")
_FILLER = re.compile(r"(?: +(?:is|was|at|of|the|in|for|to|=))+$")

_GLYPH = re.compile(r"[\u2500-\u259f\u2800-\u28ff\u25a0-\u25ff]")
_GLYPHS = re.compile(r"[\u2500-\u259f\u2800-\u28ff\u25a0-\u25ff]+")
_TQDM_BAR = re.compile(r"% ?\|[^|\[\]]{0,400}\|")
_ASCII_BAR = re.compile(r"\[[=>.#*\- ]{4,}\]|(?<=\|)[#=>.\- ]{4,}(?=\|)")
_CSV = re.compile(r"\s*[-+\d.eE]+(?:,[-+\d.eE]+){2,}\s*")
_SPACES = re.compile(r" {3,}")
_DECIMAL_COMMA = re.compile(
    r"(?:(?<![\d,.:])0,\d{2,}|(?<![\d,.:])\d+,\d{4,}|(?<=[^\W\d_])[ =:]{1,3}\d+,\d{1,2})(?![\d,])"
)
"""Numbers as half of the world writes them: ``0,438`` and ``5,5254`` cannot be thousands."""
_DECIMAL_POINT = re.compile(r"(?<![\d.])\d+\.\d+(?![\d.])")
_COMMA_INSIDE = re.compile(r"(?<=\d),(?=\d)")
_LEADERS = re.compile(r"(?<=[\w)\]]) ?\.{4,} ?(?=[-+]?\.?\d)")
"""Dots that lead from a name to its number: ``Loss ........ 2.31``."""
_ISO_DURATION = re.compile(r"(?<![A-Za-z0-9])PT(?=\d)((?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)(?![A-Za-z0-9])")

_GLOG = re.compile(r"^\s*\[?[IWEFDV]\d{3,4} \d\d:\d\d:\d\d[.\d]*\s+\d+ [^\s\]]+:\d+\]")
_WRAPPER = re.compile(
    r"\b(?:tensor|Tensor|np\.\w+|numpy\.\w+|Array|array|DeviceArray|float\d*|Decimal|Mean|jnp\.\w+)\(\[?(?=[-+.\d])"
    r"|(?<=\d)[\])]*, (?:device|dtype|grad_fn|requires_grad)=[^),]*\)?"
)
_NOISE = re.compile(
    r"https?://\S+"
    r"|^\s*[\w.-]+:\d+:\d+ \[\d+\]"
    r"|(?<![\w.])0x[0-9a-fA-F]+"
    r"|(?<![\w.=])v?\d+(?:\.\d+){2,}(?:[+-][\w.]+)?"
    r"|[\[(]?(?<![\w/.-])[\w./-]+\.(?:py|cc|cpp|cu|cuh|hpp|h|rs|go|java)(?:[:, ]+(?:line )?\d+)?(?::\w+)?[\])]?:?"
    r"|\([a-z_.]+:\d+\)"
    r"|(?<![\w.])[a-z_]{1,60}(?:\.[a-z_]{1,60}){0,8}:[A-Za-z_<]\w{0,60}>?:\d+\b"
    r"|(?<![\w.])\w{1,60}(?:\.\w{1,60}){1,8}:\d+(?= |$)"
    r"|(?<![\w.)/])(?:~|\.{0,2})(?:/[\w.@%+-]+){2,}/?"
    r"|\b[\w-]+\.(?:safetensors|bin|pt|pth|ckpt|json|parquet|zip|tar|gz|yaml|txt)\b"
    r"|(?<![\w-])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
)
_LEVEL = re.compile(r"(?<![\w=/-])(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|TRACE|SUCCESS|NOTICE|FATAL|Info|Debug)\b:?")


def _read(text: str, match: re.Match[str], left: str, before: list[Found]) -> tuple[Found, int]:
    start, end = match.start(), match.end()
    name, qualifier, explicit, words, opened, free = _label(left)
    lead = not before
    aside = bool(before) and not name and opened and not explicit
    before_char, after_char = text[start - 1 : start], text[end : end + 1]
    if match["dur"]:
        bar = after_char == "<" or before_char == "<"
        if not name and bar:
            name = "elapsed" if after_char == "<" else "remaining"
        field = Field(name, qualifier, "s", Kind.DURATION, False, explicit, aside, bar, lead, words, free)
        return Found(field, (start, end), 1.0, 1.0, None, 1.0, None, end), end
    if match["odd"]:
        field = Field(name, qualifier, "", Kind.NUMBER, False, explicit, aside, False, lead, words, free)
        return Found(field, (start, end), 1.0, 1.0, None, 1.0, float(match["odd"].lower()), end), end
    span, raw = match.span("num"), match["num"]
    integral = raw.replace(",", "").isdigit()
    sign = -1.0 if match["sign"] == "-" else 1.0
    kind, unit, bar, factor, total_factor = Kind.NUMBER, "", False, 1.0, 1.0
    total_span: tuple[int, int] | None = None
    if integral and (ranged := _RANGE.match(text, end)):
        span, end = ranged.span(1), ranged.end()
    fraction = _DENOMINATOR.match(text, end)
    if fraction and (integral or fraction["k"] or fraction["k3"]) and not _chained(text, fraction.end()):
        total_span = fraction.span("total") if fraction["total"] else fraction.span("total3")
        factor = _SCALES[fraction["k"] or fraction["k3"] or ""]
        total_factor = _SCALES[fraction["k2"] or fraction["k4"] or ""]
        kind, end = Kind.FRACTION, fraction.end()
        if name in _BEFORE_NOUN and fraction["noun"] and fraction["noun"] in "步轮":
            name, end = fraction["noun"], end + (text[end : end + 1] == fraction["noun"])
        after_share = bool(before) and before[-1].field.unit == "%" and left.strip() in ("", "|", "(", "[")
        bar = after_share or bool(fraction["total3"])
        aside = aside and not after_share
    elif scaled := _SCALE.match(text, end):
        factor, end = _SCALES[scaled[1]], scaled.end()
    is_whole = integral or (factor > 1.0 and 10.0 ** len(raw.partition(".")[2]) <= factor)
    if integral and (attached := _ATTACHED_NOUN.match(text, end)):
        free = f"{free} {name}".strip()
        name, unit, end = attached[0], attached[0], attached.end()
    elif (found := _UNIT.match(text, end)) and not _names_what_follows(text, found, name):
        unit, end = found["unit"].strip(), found.end()
        if kind is Kind.FRACTION and ("/" in unit or unit in ("%", "s", "ms")):
            kind, total_span = Kind.NUMBER, None
        if before_char == "<" and not name:
            name, bar = "remaining", True
        elif text[end : end + 1] == "<" and not name:
            name, bar = "elapsed", True
        if name.lower() in _BEFORE_NOUN and _ONE_NOUN.fullmatch(unit):
            name = unit
        elif not name and not lead and _NAMEABLE.fullmatch(unit) and (behind := _NAME_BEHIND.match(text, end)):
            name, end = behind[1], behind.end()
    elif not name:
        if integral and (noun := _NOUN_BEHIND.match(text, end)):
            name, end = noun[1], noun.end()
        elif not lead and not aside and (behind := _NAME_BEHIND.match(text, end)):
            name, end = behind[1], behind.end()
    if name == "value" and (keyed := _KEYED.findall(text, 0, start)):
        name = keyed[-1]
    if unit and not explicit and not aside and _WITHIN.search(left) and _NAMEABLE.fullmatch(unit):
        free, name = f"{free} {name}".strip(), "in"
    field = Field(name, qualifier, unit, kind, is_whole, explicit, aside, bar, lead, words, free)
    return Found(field, span, sign, factor, total_span, total_factor, None, end), end


def _label(left: str) -> tuple[str, str, bool, int, bool, str]:
    """Name, qualifier, whether ``:`` or ``=`` ties it, its word count, whether a bracket opens, and the rest."""
    if not left:
        return "", "", False, 0, False, ""
    stripped = _STRIP_LEFT.search(left)
    assert stripped is not None
    body, trail = left[: stripped.start()], left[stripped.start() :]
    explicit = bool(stripped["tie"])
    opened = "(" in trail and not body.strip()
    qualifier = ""
    if body.endswith((")", "]")) and (found := _QUALIFIER.search(body)):
        qualifier, body = found[1], body[: found.start()]
    segments = _SEGMENT.split(body.rstrip())
    name, free = segments[-1].strip(), segments[:-1]
    if not name and explicit and len(segments) > 1 and body.rstrip().endswith(("'", '"', "`")):
        name, free = segments[-2].strip(), segments[:-2]
    if not name and qualifier:
        name, qualifier = qualifier, ""
    words = _WORD.findall(name)
    if len(words) > 4:
        name = " ".join(words[-4:])
        free = [*free, *words[:-4]]
    return (
        _FILLER.sub("", name).strip(" .-_*/"),
        qualifier,
        explicit,
        len(words),
        opened,
        " ".join(WORDS.findall(" ".join(free))[:24]),
    )


def _spelt_out(match: re.Match[str]) -> str:
    """``PT1M2.5S`` as ``1m 2.5s``."""
    return " ".join(f"{number}{letter.lower()}" for number, letter in re.findall(r"([\d.]+)([HMS])", match[1]))


def _names_what_follows(text: str, unit: re.Match[str], name: str) -> bool:
    """Whether what looks like a unit is the name of the next number: ``3.4 samples/sec: 74.7``, ``epoch 3 step 12``."""
    if not unit[0].startswith(" "):
        return False
    behind = text[unit.end() : unit.end() + 4].lstrip(" \"'")[:1]
    counts_already = behind.isdigit() and _ONE_NOUN.fullmatch(name.lower()) and _ONE_NOUN.fullmatch(unit["unit"])
    return behind in (":", "=") or bool(counts_already)


def _chained(text: str, end: int) -> bool:
    return text[end : end + 1] == "/" and text[end + 1 : end + 2].isdigit()


def _last_word(match: re.Match[str]) -> str:
    """Blanks, but for a path's last part where that is a word: ``/usr/local/bin/nvcc`` says ``nvcc``."""
    base = match[0].rpartition("/")[2]
    size = match.end() - match.start()
    return base.rjust(size) if base.isalpha() and len(base) < size else " " * size


def _spaces(match: re.Match[str]) -> str:
    return " " * (match.end() - match.start())
