"""``serve``: its answers are tested with the server; here is what its command line promises."""

import signal
from pathlib import Path

import httpx

from tests.cli.commandline import (
    events_of,
    kill,
    let_go,
    pi_actors,
    read_until,
    running,
    says,
    script,
    topics_of,
    waits,
)
from tests.server.processes import serving


def get(url: str, token: str | None = None) -> httpx.Response:
    """What is answered."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return httpx.get(url, headers=headers, trust_env=False)


def names(url: str, token: str | None = None) -> list[str]:
    """The sessions that are served."""
    return [line["id"] for line in get(f"{url}/sessions", token).json()["sessions"]]


def test_all_sessions_of_a_store_are_served_or_those_that_are_named(tmp_path: Path) -> None:
    model = script(tmp_path, "Hello.")
    for name in ("one", "two"):
        pi_actors("run", "hi", "--session", name, "--model", model, cwd=tmp_path)
    with serving("pi-actors.db", cwd=tmp_path) as server:
        assert names(server.url) == ["one", "two"]
    with serving("pi-actors.db", "--session", "two", "--session", "three", cwd=tmp_path) as server:
        assert names(server.url) == ["three", "two"]
    with serving("new.db", cwd=tmp_path) as server:
        assert names(server.url) == ["main"]


def test_a_server_finishes_what_a_killed_process_owed(tmp_path: Path) -> None:
    model = script(tmp_path, says("I start.", waits()), "Somebody should look.")
    try:
        with running("run", "work", "--json", "--model", model, cwd=tmp_path) as process:
            read_until(process, "ToolStarted")
            kill(process)
        with serving("pi-actors.db", "--model", model, cwd=tmp_path) as server:
            view = f"{server.url}/sessions/main/agents/1/view"
            while get(view).json()["value"]["docs"]["pi.live"]["run"] is not None:
                pass
    finally:
        let_go(tmp_path)
    assert topics_of(events_of("pi-actors.db", cwd=tmp_path))[-1] in ("RunEnded", "WorkEnded")


def test_a_server_that_is_told_to_end_says_how_to_go_on(tmp_path: Path) -> None:
    with serving("work.db", cwd=tmp_path) as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait() == 130
        assert server.process.stderr is not None
        assert "nothing stored is lost. Go on with: pi-actors resume work.db" in server.process.stderr.read()


def test_a_token_comes_from_the_environment_and_is_needed_for_other_machines(tmp_path: Path) -> None:
    with serving("work.db", cwd=tmp_path, PI_ACTORS_TOKEN="a-secret") as server:
        assert get(f"{server.url}/sessions").status_code == 401
        assert names(server.url, "a-secret") == ["main"]
    done = pi_actors("serve", "work.db", "--host", "0.0.0.0", "--port", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert "can be reached from other machines, so a token is needed: set PI_ACTORS_TOKEN" in done.stderr


def test_following_needs_a_store_and_takes_nothing_of_it(tmp_path: Path) -> None:
    done = pi_actors("serve", "nothing.db", "--follow", "--port", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no store" in done.stderr
    with serving("work.db", cwd=tmp_path) as owner, serving("work.db", "--follow", cwd=tmp_path) as follower:
        assert names(owner.url) == names(follower.url) == ["main"]
        done = pi_actors("serve", "work.db", "--port", "0", cwd=tmp_path)
        assert done.returncode == 3
        assert f"process {owner.process.pid} " in done.stderr


def test_an_address_that_is_taken_is_told_in_a_line(tmp_path: Path) -> None:
    with serving("work.db", cwd=tmp_path) as server:
        port = server.url.rpartition(":")[2]
        done = pi_actors("serve", "other.db", "--port", port, cwd=tmp_path)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        assert "ddress already in use" in done.stderr
