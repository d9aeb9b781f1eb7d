"""File names are bytes. The three forms in which this room writes them down.

* ``str`` for programs: UTF-8 with ``surrogateescape``, so that every name survives the round trip whatever
  the locale of the machine;
* *quoted* for the manifest: percent-encoded ASCII, one spelling per name, so that the digest is canonical;
* *display* for people: valid UTF-8 without control characters, safe to print or to store in a database.
"""

from __future__ import annotations

from urllib.parse import quote_from_bytes, unquote_to_bytes

_UNQUOTED = "/!$&'()*+,;=:@"


def to_text(raw: bytes) -> str:
    """The name as ``str``; ``to_bytes`` is the inverse."""
    return raw.decode("utf-8", "surrogateescape")


def to_bytes(text: str) -> bytes:
    """The inverse of ``to_text``."""
    return text.encode("utf-8", "surrogateescape")


def quote(text: str) -> str:
    """Percent-encoded ASCII spelling of a name; ``unquote`` is the inverse."""
    return quote_from_bytes(to_bytes(text), safe=_UNQUOTED)


def unquote(quoted: str) -> str:
    """The inverse of ``quote``.

    Raises:
        ValueError: the spelling is not the one that ``quote`` produces.
    """
    text = to_text(unquote_to_bytes(quoted))
    if quote(text) != quoted:
        raise ValueError(f"not a canonical spelling of a path: {quoted!r}")
    return text


def display(name: str | bytes) -> str:
    """A printable form of a name: odd bytes and control characters become backslash escapes."""
    raw = to_bytes(name) if isinstance(name, str) else name
    text = raw.decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
