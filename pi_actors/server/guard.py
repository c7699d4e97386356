"""Who may ask: the rules for a request's Host, Origin and token, decided from its headers alone.

Names are where attacks come from: a page whose name was made to point here (DNS rebinding) sends
that name as its Host. So a Host is an address, ``localhost``, or a name that whoever started the
server has allowed. A page of another origin is refused whatever it asks for, and what changes
something must be JSON, which no page can send to another origin without asking first.
"""

import hmac
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import msgspec

from pi_actors.server.refusals import Refused

_FROM_ELSEWHERE: Final = frozenset({"cross-site", "same-site"})


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """``names``: the host names, in lower case, under which the server may be asked, beside addresses."""

    token: str | None = None
    names: frozenset[str] = frozenset({"localhost"})

    def check_origin(self, headers: Mapping[str, str]) -> None:
        """Let the request of a program or of our own page pass.

        Raises:
            Refused: it was made by a page of somebody else, or for another host.
        """
        host = headers.get("host", "")
        if not self._is_ours(_name_of(host)):
            raise Refused(
                403,
                "host_refused",
                f"this server does not answer for the host {host[:100]!r}; ask it by its address, "
                "or allow the name where the server is started (--allow-host)",
            )
        origin = headers.get("origin")
        if origin is not None and authority_of(origin) != host.lower():
            raise Refused(403, "origin_refused", f"pages of {origin[:100]!r} may not use this server")
        if headers.get("sec-fetch-site") in _FROM_ELSEWHERE and headers.get("sec-fetch-mode") != "navigate":
            raise Refused(403, "origin_refused", "pages of other sites may not use this server")

    def check_token(self, headers: Mapping[str, str]) -> None:
        """Let who knows the token pass; where there is none, everybody.

        Raises:
            Refused: the token is missing or wrong.
        """
        if self.token is None:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        known = hmac.compare_digest(given.strip().encode(), self.token.encode())
        if scheme.lower() != "bearer" or not known:
            raise Refused(
                401,
                "unauthorized",
                "this server wants a token: send it as 'Authorization: Bearer TOKEN'",
                {"www-authenticate": "Bearer"},
            )

    def _is_ours(self, name: str) -> bool:
        return name in self.names or is_address(name)


def is_address(name: str) -> bool:
    """Whether *name* is an IP address."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on *host*."""
    return host == "localhost" or (is_address(host) and ip_address(host).is_loopback)


def authority_of(origin: str) -> str | None:
    """The host and port of an origin, in lower case; None where it has none."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme in ("http", "https") else None


def _name_of(host: str) -> str:
    """The name of a Host header in lower case, without its port and the brackets of an address."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
