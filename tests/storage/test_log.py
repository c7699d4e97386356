"""The contract of a log, kept by every kind of it."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pi_actors.core.errors import Fenced, InvalidValue, SessionInUse, StoreError
from pi_actors.core.record import IndexRows
from pi_actors.storage.codec import decode_rows, published
from pi_actors.storage.log import FORMAT, PAGE_ROWS, Head, Log
from pi_actors.storage.opening import open_log
from tests.storage.events import (
    NOW_US,
    TOPICS,
    append,
    batch,
    claimed,
    positions,
    refusal,
    shown_batch,
)


@pytest.fixture(params=["memory:", "sqlite:"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    kind: str = request.param
    log = open_log(kind if kind == "memory:" else f"{kind}{tmp_path / 'work.db'}")
    yield log
    log.close()


# Heads and the fence.


def test_a_session_has_no_head_until_it_is_claimed(log: Log) -> None:
    assert log.head("main") is None
    assert log.heads() == []
    assert log.read("main", after=0, through=100) == []
    assert log.size_bytes("main") == 0


def test_claiming_makes_the_head_and_raises_its_epoch_each_time(log: Log) -> None:
    first = log.claim("main", now_us=NOW_US)
    assert first == Head(
        session="main", epoch=1, position=0, format=FORMAT, scavenged_to=0, live=False, updated_us=NOW_US
    )
    append(log, batch("main", 0, 3, live=True))
    second = log.claim("main", now_us=NOW_US + 1_000)
    assert (second.epoch, second.position, second.live, second.updated_us) == (2, 3, True, NOW_US + 3)
    assert log.head("main") == second


def test_heads_are_the_directory_of_sessions_and_tell_which_have_work(log: Log) -> None:
    for session in ("b", "a", "c"):
        claimed(log, session)
    append(log, batch("b", 0, 2, live=True), batch("a", 0, 1))
    assert [(head.session, head.position, head.live) for head in log.heads()] == [
        ("a", 1, False),
        ("b", 2, True),
        ("c", 0, False),
    ]
    append(log, batch("b", 2, live=False))
    assert not any(head.live for head in log.heads())


def test_a_writer_of_an_old_epoch_is_refused_and_changes_nothing(log: Log) -> None:
    # X33, R292
    claimed(log, "main")
    append(log, batch("main", 0, 2))
    claimed(log, "main")
    outcomes = log.append([batch("main", 2, epoch=1, live=True)])
    assert refusal(outcomes) == (
        "another writer has extended or taken over session 'main': it is at epoch 2, position 2; "
        "this writer is at epoch 1, position 2. Nothing of this commit was stored. "
        "Close the session and open it again."
    )
    assert isinstance(outcomes[0], Fenced)
    assert positions(log, "main") == [1, 2]
    head = log.head("main")
    assert head is not None
    assert (head.position, head.live) == (2, False)


def test_a_writer_at_another_position_is_refused(log: Log) -> None:
    claimed(log, "main")
    append(log, batch("main", 0, 2))
    for after in (0, 1, 3, 7):
        assert "it is at epoch 1, position 2" in refusal(log.append([batch("main", after)]))
    assert positions(log, "main") == [1, 2]


def test_a_session_that_was_never_claimed_is_refused(log: Log) -> None:
    assert "was never claimed" in refusal(log.append([batch("main", 0)]))
    assert log.head("main") is None


def test_a_refused_batch_never_fails_its_neighbours(log: Log) -> None:
    for session in ("a", "b", "c"):
        claimed(log, session)
    outcomes = log.append([batch("a", 0, 2), batch("b", 5), batch("c", 0), batch("a", 2)])
    assert [outcome is None for outcome in outcomes] == [True, False, True, True]
    assert [positions(log, session) for session in ("a", "b", "c")] == [[1, 2, 3], [], [1]]


def test_batches_of_one_session_are_applied_in_the_given_order(log: Log) -> None:
    claimed(log, "main")
    append(log, batch("main", 0, 2), batch("main", 2), batch("main", 3, 4, live=True))
    head = log.head("main")
    assert head is not None
    assert (head.position, head.live, head.updated_us) == (7, True, NOW_US + 7)


def test_after_a_refused_batch_the_later_ones_of_its_session_are_refused_too(log: Log) -> None:
    claimed(log, "main")
    outcomes = log.append([batch("main", 0), batch("main", 3), batch("main", 4), batch("main", 1)])
    assert [outcome is None for outcome in outcomes] == [True, False, False, True]
    assert positions(log, "main") == [1, 2]


def test_of_two_appends_after_one_position_one_is_readable_and_the_other_was_refused(log: Log) -> None:
    # X64, X55
    claimed(log, "main")
    outcomes = log.append([batch("main", 0, text="one"), batch("main", 0, text="other")])
    assert outcomes[0] is None
    assert isinstance(outcomes[1], Fenced)
    (event,) = decode_rows("main", log.read("main", after=0, through=10), TOPICS)
    assert "one" in str(event.event)


# All or nothing.


def test_a_commit_of_several_events_is_readable_as_a_whole_once_append_returns(log: Log) -> None:
    # R268
    claimed(log, "main")
    stored = batch("main", 0, 5)
    append(log, stored)
    assert log.read("main", after=0, through=100) == stored.rows


def test_nothing_of_a_commit_is_left_when_something_of_it_was_there_already(log: Log) -> None:
    # R268, X45
    claimed(log, "main")
    taken = IndexRows(requests=((1, "twice", 2, "input"),), settled=((1, 2),), entries=((1, 2),))
    append(log, batch("main", 0, 2, index=taken))
    fresh = IndexRows(settled=((3, 4),), entries=((1, 3),))
    for again in (
        IndexRows(requests=((1, "twice", 3, "input"),), settled=fresh.settled, entries=fresh.entries),
        IndexRows(settled=((1, 4),), entries=fresh.entries),
    ):
        outcomes = log.append([batch("main", 2, 2, index=again, live=True)])
        assert "has something after position 2 already" in refusal(outcomes)
        assert positions(log, "main") == [1, 2]
        assert log.find_settled("main", 3) is None
        assert log.entries("main", 1, before=None, limit=10) == [2]
    head = log.head("main")
    assert head is not None
    assert (head.position, head.live) == (2, False)
    append(log, batch("main", 2, 2, index=fresh))


def test_positions_only_rise_and_a_refused_one_is_given_to_the_next_commit(log: Log) -> None:
    # R273: what was never acknowledged has no id.
    claimed(log, "main")
    append(log, batch("main", 0, 2))
    assert log.append([batch("main", 5)])[0] is not None
    append(log, batch("main", 2, 2))
    assert positions(log, "main") == [1, 2, 3, 4]


def test_appending_nothing_returns_nothing(log: Log) -> None:
    assert log.append([]) == []


def test_a_group_of_many_batches_is_one_transaction(log: Log) -> None:
    sessions = [f"session {number}" for number in range(150)]
    for session in sessions:
        claimed(log, session)
    before = log.transactions
    index = IndexRows(requests=((1, "asked", 1, "input"),), settled=((1, 2),), entries=((1, 1), (1, 2)))
    append(log, *(batch(session, 0, 3, index=index) for session in sessions))
    assert log.transactions == before + 1
    for session in sessions:
        assert positions(log, session) == [1, 2, 3]
        assert log.find_request(session, 1, "asked") == (1, "input")
        assert log.entries(session, 1, before=None, limit=9) == [1, 2]


# Reading.


def test_rows_are_read_in_pages_between_two_positions(log: Log) -> None:
    claimed(log, "main")
    append(log, batch("main", 0, 9))

    def read(after: int, through: int, limit: int = PAGE_ROWS) -> list[int]:
        return [row.position for row in log.read("main", after=after, through=through, limit=limit)]

    assert read(0, 4) == [1, 2, 3, 4]
    assert read(4, 7) == [5, 6, 7]
    assert read(4, 100, limit=2) == [5, 6]
    assert read(9, 100) == []
    assert read(5, 5) == []


def test_a_page_holds_no_more_rows_than_the_limit_unless_asked_for(log: Log) -> None:
    claimed(log, "main")
    append(log, batch("main", 0, PAGE_ROWS + 5))
    assert len(log.read("main", after=0, through=PAGE_ROWS + 5)) == PAGE_ROWS
    assert positions(log, "main") == list(range(1, PAGE_ROWS + 6))


def test_rows_are_read_by_position_in_order_without_the_missing_ones(log: Log) -> None:
    claimed(log, "main")
    append(log, batch("main", 0, 9))
    assert [row.position for row in log.read_at("main", [7, 2, 100, 2, 5])] == [2, 5, 7]
    assert log.read_at("main", []) == []
    assert log.read_at("other", [1]) == []


def test_paging_while_commits_happen_skips_nothing_doubles_nothing_and_shows_whole_commits(log: Log) -> None:
    # R276
    claimed(log, "main")
    commits = 60
    reading = threading.Barrier(3)

    def read() -> list[int]:
        reading.wait()
        seen: list[int] = []
        while len(seen) < commits * 3:
            after = seen[-1] if seen else 0
            page = log.read("main", after=after, through=commits * 3, limit=7)
            for whole in published(decode_rows("main", page, TOPICS)):
                assert len(whole) == 3
                seen += [event.position for event in whole]
        return seen

    with ThreadPoolExecutor(2) as readers:
        found = [readers.submit(read) for _ in range(2)]
        reading.wait()
        for number in range(commits):
            append(log, batch("main", 3 * number, 3))
        assert [one.result() for one in found] == [list(range(1, commits * 3 + 1))] * 2


def test_sessions_do_not_see_each_other(log: Log) -> None:
    index = IndexRows(requests=((1, "asked", 1, "input"),), settled=((1, 2),), entries=((1, 2),))
    for session in ("one", "other"):
        claimed(log, session)
    append(log, batch("one", 0, 2, index=index))
    assert positions(log, "other") == []
    assert log.find_request("other", 1, "asked") is None
    assert log.find_settled("other", 1) is None
    assert log.entries("other", 1, before=None, limit=5) == []


def test_the_size_of_a_session_grows_with_what_is_stored_in_it(log: Log) -> None:
    claimed(log, "main")
    append(log, batch("main", 0, text="x" * 10_000))
    assert 10_000 < log.size_bytes("main") < 10_100
    append(log, batch("main", 1, text="y" * 10_000))
    assert 20_000 < log.size_bytes("main") < 20_200


# The index tables.


def test_request_ids_are_found_within_their_agent(log: Log) -> None:
    claimed(log, "main")
    requests = (
        (1, "same", 1, "input"),
        (7, "same", 2, "write"),
        (0, "same", 3, "agent"),
        (1, "ünïcode ✓", 4, "input"),
    )
    append(log, batch("main", 0, 4, index=IndexRows(requests=requests)))
    assert [log.find_request("main", agent, name) for agent, name, _, _ in requests] == [
        (1, "input"),
        (2, "write"),
        (3, "agent"),
        (4, "input"),
    ]
    assert log.find_request("main", 7, "other") is None
    assert log.find_request("main", 8, "same") is None


def test_what_settled_an_id_is_found(log: Log) -> None:
    claimed(log, "main")
    append(log, batch("main", 0, 5, index=IndexRows(settled=((1, 4), (2, 4), (3, 5)))))
    assert [log.find_settled("main", id) for id in range(1, 5)] == [4, 4, 5, None]


def test_the_newest_entries_of_an_agent_come_in_order_before_a_position(log: Log) -> None:
    claimed(log, "main")
    append(log, batch("main", 0, 6, index=IndexRows(entries=((1, 1), (1, 3), (2, 4), (1, 5), (1, 6)))))
    assert log.entries("main", 1, before=None, limit=2) == [5, 6]
    assert log.entries("main", 1, before=5, limit=2) == [1, 3]
    assert log.entries("main", 1, before=None, limit=100) == [1, 3, 5, 6]
    assert log.entries("main", 1, before=1, limit=5) == []
    assert log.entries("main", 2, before=None, limit=5) == [4]
    assert log.entries("main", 3, before=None, limit=5) == []


def test_a_rebuilt_index_replaces_the_one_before(log: Log) -> None:
    claimed(log, "main")
    claimed(log, "other")
    index = IndexRows(requests=((1, "a", 1, "input"),), settled=((1, 2),), entries=((1, 1),))
    append(log, batch("main", 0, 3, index=index), batch("other", 0, 3, index=index))
    log.rebuild_index(
        "main", IndexRows(requests=((1, "b", 2, "write"),), settled=((2, 3),), entries=((1, 2), (1, 3)))
    )
    assert log.find_request("main", 1, "a") is None
    assert log.find_request("main", 1, "b") == (2, "write")
    assert (log.find_settled("main", 1), log.find_settled("main", 2)) == (None, 3)
    assert log.entries("main", 1, before=None, limit=9) == [2, 3]
    assert log.find_request("other", 1, "a") == (1, "input")
    assert not log.needs_index("main")


def test_a_session_needs_no_index_as_long_as_nobody_deletes_it(log: Log) -> None:
    assert not log.needs_index("main")
    claimed(log, "main")
    assert not log.needs_index("main")
    append(log, batch("main", 0))
    assert not log.needs_index("main")


# Ownership and closing.


def test_a_second_opener_in_the_same_process_is_refused_by_name_until_the_first_lets_go(log: Log) -> None:
    held = log.acquire("main")
    with pytest.raises(
        SessionInUse, match=r"session 'main' of .* is in use by process \d+ on host \S+ since"
    ):
        log.acquire("main")
    log.acquire("other").close()
    held.close()
    held.close()
    log.acquire("main").close()


def test_the_holder_is_named_without_taking_anything(log: Log) -> None:
    assert log.holder("main") is None
    held = log.acquire("main")
    for _ in range(2):
        holder = log.holder("main")
        assert holder is not None
        assert holder.startswith("process ")
    held.close()
    assert log.holder("main") is None


@pytest.mark.parametrize("session", ["", "x" * 201, "new\nline", "nul\0", "half \ud800"])
def test_what_is_no_session_id_is_refused(log: Log, session: str) -> None:
    for refuse in (
        lambda: log.acquire(session),
        lambda: log.spill_folder(session),
        lambda: log.claim(session, now_us=NOW_US),
    ):
        with pytest.raises(InvalidValue, match="is no session id, which is 1 to 200 printable characters"):
            refuse()


@pytest.mark.parametrize("session", ["x" * 200, "../up", "a/b", ".", "ünïcode ✓", "Main", "COM1", "%2e"])
def test_any_printable_session_id_will_do(log: Log, session: str) -> None:
    held = log.acquire(session)
    claimed(log, session)
    append(log, batch(session, 0))
    assert [head.session for head in log.heads()] == [session]
    assert positions(log, session) == [1]
    held.close()


def test_a_closed_log_refuses_everything(log: Log) -> None:
    claimed(log, "main")
    log.close()
    log.close()
    for use in (
        log.heads,
        lambda: log.append([batch("main", 0)]),
        lambda: log.read("main", after=0, through=9),
        lambda: log.acquire("main"),
        lambda: log.claim("main", now_us=NOW_US),
    ):
        with pytest.raises(StoreError, match="is closed"):
            use()


# Scavenging.


def scavenged(log: Log, *positions: int, through: int, epoch: int = 1) -> Fenced | None:
    """What came of deleting rows of "main"."""
    return log.scavenge("main", epoch=epoch, positions=positions, through=through)


def scavenged_to(log: Log) -> int:
    """What the head of "main" says."""
    head = log.head("main")
    assert head is not None
    return head.scavenged_to


def stored_bytes(log: Log) -> int:
    """How much the rows of "main" hold."""
    return sum(len(row.state) for row in log.read("main", after=0, through=1_000))


def with_glimpses(log: Log) -> None:
    """Notes at 1, 2 and 6, what is only for display at 3, 4, 5 and 7."""
    claimed(log, "main")
    append(log, batch("main", 0, 2), shown_batch("main", 2), shown_batch("main", 3, 2))
    append(log, batch("main", 5), shown_batch("main", 6))


def test_scavenging_deletes_rows_and_says_up_to_where_something_is_missing(log: Log) -> None:
    with_glimpses(log)
    before = log.size_bytes("main")
    assert scavenged(log, 5, 4, through=6) is None
    assert positions(log, "main") == [1, 2, 3, 6, 7]
    assert [row.position for row in log.read_at("main", [4, 6])] == [6]
    assert scavenged_to(log) == 6
    assert log.size_bytes("main") == stored_bytes(log) < before
    head = log.head("main")
    assert head is not None
    assert (head.position, head.epoch) == (7, 1)
    append(log, batch("main", 7))
    assert positions(log, "main", after=5) == [6, 7, 8]


def test_only_rows_for_display_can_be_scavenged(log: Log) -> None:
    with_glimpses(log)
    assert scavenged(log, 6, 5, 2, through=7) is None
    assert positions(log, "main") == [1, 2, 3, 4, 6, 7]
    assert log.size_bytes("main") == stored_bytes(log)


def test_who_does_not_own_the_session_any_more_deletes_nothing(log: Log) -> None:
    with_glimpses(log)
    claimed(log, "main")
    before = log.size_bytes("main")
    refused = scavenged(log, 5, through=6, epoch=1)
    assert isinstance(refused, Fenced)
    assert str(refused) == (
        "session 'main' was taken over by another writer: it is at epoch 2, and this one is of epoch 1. "
        "Nothing was deleted. Close the session and open it again."
    )
    assert (positions(log, "main"), scavenged_to(log)) == ([1, 2, 3, 4, 5, 6, 7], 0)
    assert log.size_bytes("main") == before
    assert scavenged(log, 5, through=6, epoch=2) is None
    assert "has no head" in str(log.scavenge("other", epoch=1, positions=[1], through=1))


def test_where_something_is_missing_never_moves_back(log: Log) -> None:
    with_glimpses(log)
    scavenged(log, 7, through=7)
    scavenged(log, 3, through=6)
    assert (positions(log, "main"), scavenged_to(log)) == ([1, 2, 4, 5, 6], 7)
    assert log.claim("main", now_us=NOW_US).scavenged_to == 7


def test_deleting_again_what_has_gone_changes_nothing(log: Log) -> None:
    with_glimpses(log)
    for _ in range(2):
        assert scavenged(log, 5, 4, through=6) is None
        assert positions(log, "main") == [1, 2, 3, 6, 7]
        assert log.size_bytes("main") == stored_bytes(log)


def test_what_is_for_display_is_found_newest_first_whatever_stands_between(log: Log) -> None:
    with_glimpses(log)
    claimed(log, "other")
    append(log, shown_batch("other", 0, 3))

    def found(before: int, limit: int = PAGE_ROWS) -> list[int]:
        return [row.position for row in log.read_display("main", before=before, limit=limit)]

    assert found(100) == [7, 5, 4, 3]
    assert found(7) == [5, 4, 3]
    assert found(7, limit=2) == [5, 4]
    assert found(3) == []
    scavenged(log, 5, 4, through=6)
    assert found(100) == [7, 3]
    assert log.read_display("nobody", before=100) == []


def test_scavenging_is_not_counted_among_the_transactions_that_wait_for_the_disk(log: Log) -> None:
    with_glimpses(log)
    before = log.transactions
    scavenged(log, 5, through=6)
    log.give_back()
    assert log.transactions == before
