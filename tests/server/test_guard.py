"""Who may ask: rules for Host, Origin and token."""

import pytest

from pi_actors.server.guard import Guard, is_loopback
from pi_actors.server.refusals import Refused

TOKEN = "a long secret"


def refusal(guard: Guard, **headers: str) -> str | None:
    """The code that a request with these headers is refused with; None where it may pass."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        guard.check_origin(given)
        guard.check_token(given)
    except Refused as refused:
        return refused.code
    return None


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8765",
        "localhost:1",
        "LocalHost",
        "[::1]",
        "[::1]:8765",
        "192.168.1.7:80",
        "box:80",
    ],
)
def test_a_host_is_an_address_localhost_or_a_name_that_was_allowed(host: str) -> None:
    assert refusal(Guard(names=frozenset({"localhost", "box"})), host=host) is None


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example", "[", "a b"],
)
def test_a_name_that_was_made_to_point_here_is_refused(host: str) -> None:
    assert refusal(Guard(), host=host) == "host_refused"


def test_a_page_of_another_origin_is_refused() -> None:
    guard = Guard()
    host = "127.0.0.1:8765"
    assert refusal(guard, host=host, origin="http://127.0.0.1:8765") is None
    assert refusal(guard, host=host, origin="https://127.0.0.1:8765") is None, "behind a proxy"
    for origin in (
        "null",
        "",
        "http://evil.example",
        "http://127.0.0.1:9000",
        "http://localhost:8765",
        "file://",
        "x[",
    ):
        assert refusal(guard, host=host, origin=origin) == "origin_refused"


def test_what_a_browser_says_of_other_sites_is_believed() -> None:
    guard = Guard()
    for site in ("cross-site", "same-site"):
        assert refusal(guard, host="localhost", sec_fetch_site=site) == "origin_refused"
        assert (
            refusal(guard, host="localhost", sec_fetch_site=site, sec_fetch_mode="no-cors")
            == "origin_refused"
        )
        assert refusal(guard, host="localhost", sec_fetch_site=site, sec_fetch_mode="navigate") is None
    for site in ("same-origin", "none"):
        assert refusal(guard, host="localhost", sec_fetch_site=site) is None


def test_a_token_is_wanted_where_there_is_one() -> None:
    guard = Guard(token=TOKEN)
    assert refusal(guard, host="localhost") == "unauthorized"
    for wrong in (
        "",
        TOKEN,
        "Bearer",
        "Bearer ",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer ü",
    ):
        assert refusal(guard, host="localhost", authorization=wrong) == "unauthorized"
    assert refusal(guard, host="localhost", authorization=f"Bearer {TOKEN}") is None
    assert refusal(guard, host="localhost", authorization=f"bearer  {TOKEN} ") is None


def test_only_this_machine_reaches_loopback() -> None:
    assert [host for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost") if not is_loopback(host)] == []
    assert [
        host for host in ("0.0.0.0", "::", "", "192.168.1.7", "box", "127.0.0.1.x") if is_loopback(host)
    ] == []
