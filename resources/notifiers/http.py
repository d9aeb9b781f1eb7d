"""One HTTP POST to a receiver that the settings name: no redirects, no proxy, no address that was not looked at.

The host's name is resolved once, every address is checked, and the connection goes to a checked address: a name that
answers differently the second time leads nowhere else.
"""

from __future__ import annotations

import http.client
import ipaddress
import re
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.resources.notifiers.deadline import ends_within

_CARRIERS = tuple(
    ipaddress.IPv6Network(text) for text in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
)
_UNSAFE = re.compile(r"[^\x21-\x7e]")
_PORTS = {"http": 80, "https": 443}


def checked_url(url: str) -> SplitResult:
    """The parts of an HTTP URL. Raises ``InputError``; the message does not show the path, which may be a secret."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InputError("a hook's URL cannot be read: give http(s)://host/path") from error
    if parts.scheme not in _PORTS or not parts.hostname or parts.username or parts.password or port == 0:
        raise InputError(f"a hook's URL is http(s)://host/path without a user; got {shown(parts)}")
    if _UNSAFE.search(parts.path + parts.query):
        raise InputError(
            f"a hook's URL holds plain characters only, others as %XX; look at what follows {shown(parts)}"
        )
    return parts


def shown(parts: SplitResult) -> str:
    """A URL as messages may show it: scheme and host only."""
    return f"{parts.scheme}://{parts.hostname or ''}"


def post(parts: SplitResult, body: bytes, headers: Mapping[str, str], timeout_s: float, *, allow_private: bool) -> None:
    """Send the body; a status of 2xx is success.

    Raises:
        ExternalError: no connection, no answer in time, a server error, or too many requests.
        InputError: the receiver refuses the request, or its address is one of our own network.
    """
    where = shown(parts)
    host = parts.hostname or ""
    port = parts.port or _PORTS[parts.scheme]
    address = _address(host, port, where, allow_private=allow_private)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    dialled = _dialled(address, port, timeout_s, host)
    with ends_within(dialled, timeout_s):
        connection = _connection(parts.scheme, host, port, dialled, timeout_s)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
            # What the receiver has to say beyond its status is of no use: it is not read.
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            raise ExternalError(f"the hook at {where} cannot be reached: {type(error).__name__}") from error
        finally:
            connection.close()
    if 200 <= status < 300:
        return
    if status >= 500 or status in (408, 425, 429):
        raise ExternalError(f"the hook at {where} answered with status {status}")
    raise InputError(f"the hook at {where} refused the notice with status {status}; redirects are not followed")


def _address(host: str, port: int, where: str, *, allow_private: bool) -> str:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ExternalError(f"the hook's host has no address: {where}") from error
    addresses = [str(item[4][0]) for item in found]
    if not allow_private:
        own = [address for address in addresses if not _is_public(address)]
        if own or not addresses:
            raise InputError(f"the hook's address is one of our own network; set allow_private to allow it: {where}")
    return addresses[0]


def _is_public(address: str) -> bool:
    """Whether an address is one of the open Internet, and so is the IPv4 address that it may carry inside."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if not parsed.is_global or parsed.is_multicast:
        # A mapped address is as public as the one inside.
        mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
        return mapped is not None and _is_public(str(mapped))
    if isinstance(parsed, ipaddress.IPv4Address):
        return True
    if parsed.is_site_local:
        return False
    return all(inside.is_global and not inside.is_multicast for inside in _carried(parsed))


def _carried(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses to which gateways on the way may pass what is sent to an IPv6 address.

    RFC 4291 (mapped, compatible), 2765 (translated), 3056 (6to4), 4380 (Teredo), 6052 (NAT64).
    """
    found = [inside for inside in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())) if inside]
    if any(address in network for network in _CARRIERS):
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return found


def _connection(
    scheme: str, host: str, port: int, dialled: socket.socket, timeout_s: float
) -> http.client.HTTPConnection:
    """A connection over a socket that speaks to ``host``: certificate and Host header are the name's."""
    if scheme == "https":
        context = ssl.create_default_context()
        secure = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
        try:
            secure.sock = context.wrap_socket(dialled, server_hostname=host)
        except OSError as error:  # among them a certificate that does not hold
            dialled.close()
            raise ExternalError(
                f"the hook's host gives no secure connection: {host}: {type(error).__name__}"
            ) from error
        return secure
    plain = http.client.HTTPConnection(host, port, timeout=timeout_s)
    plain.sock = dialled
    return plain


def _dialled(address: str, port: int, timeout_s: float, host: str) -> socket.socket:
    try:
        return socket.create_connection((address, port), timeout_s)
    except OSError as error:
        raise ExternalError(f"the hook's host cannot be reached: {host}: {type(error).__name__}") from error
