"""Submissions and what became of them."""

from pi_actors.actors.agent.messages import (
    EntryDraft,
    RunEnded,
    SubmissionPlaced,
    SubmissionQueued,
    SubmissionSettled,
)
from projections.submissions import SUBMISSIONS, SubmissionFacts
from tests.projections.story import ROOT, Story

DRAFT = EntryDraft(kind="pi.user")


def busy() -> Story:
    story = Story()
    story.spawn_root()
    story.ask()
    return story


def test_an_input_placed_at_once_is_done_with_its_runs_answer() -> None:
    story = busy()
    placed = SubmissionFacts(id=2, agent=ROOT, mode="follow_up", status="placed", entry=3)
    assert story.state().submissions[2] == placed
    story.commit((ROOT, RunEnded(run=4, inputs=(2,), answer=9)))
    done = SubmissionFacts(id=2, agent=ROOT, mode="follow_up", status="done", entry=3, answer=9)
    assert story.state().submissions[2] == done


def test_all_inputs_of_a_run_settle_with_it() -> None:
    """Scenario A19."""
    story = busy()
    steer = story.commit((ROOT, SubmissionQueued(mode="steer", entry=DRAFT)))
    assert story.state().submissions[steer].status == "queued"
    story.commit((ROOT, SubmissionPlaced(mode="steer", entry=8, submission=steer)))
    assert story.state().submissions[steer].status == "placed"
    story.commit((ROOT, RunEnded(run=4, inputs=(2, steer), answer=9)))
    settled = story.state().submissions
    assert [(settled[id].status, settled[id].answer) for id in (2, steer)] == [("done", 9), ("done", 9)]


def test_a_failed_run_leaves_its_inputs_unanswered_with_the_reason() -> None:
    """Scenario A20."""
    story = busy()
    waiting = story.commit((ROOT, SubmissionQueued(mode="follow_up", entry=DRAFT)))
    story.commit((ROOT, RunEnded(run=4, inputs=(2,), reason="model_error", detail="refused")))
    found = story.state().submissions
    assert (found[2].status, found[2].reason, found[2].detail) == ("unanswered", "model_error", "refused")
    assert found[waiting].status == "queued"


def test_a_write_is_done_when_it_is_placed() -> None:
    """Scenario A3."""
    story = busy()
    write = story.commit((ROOT, SubmissionPlaced(mode="write", entry=7)))
    assert story.state().submissions[write].status == "done"


def test_a_settled_submission_never_changes_again() -> None:
    """The ninth promise."""
    story = busy()
    queued = story.commit((ROOT, SubmissionQueued(mode="follow_up", entry=DRAFT)))
    story.commit((ROOT, SubmissionSettled(submission=queued, reason="aborted", detail="withdrawn")))
    before = story.state().submissions
    story.commit(
        (ROOT, SubmissionPlaced(mode="follow_up", entry=9, submission=queued)),
        (ROOT, RunEnded(run=4, inputs=(queued,), answer=9)),
        (ROOT, SubmissionSettled(submission=999, reason="stale")),
    )
    assert story.state().submissions == before
    assert (before[queued].status, before[queued].reason) == ("unanswered", "aborted")


def test_the_document_lists_submissions_oldest_first() -> None:
    story = busy()
    queued = story.commit((ROOT, SubmissionQueued(mode="write", entry=DRAFT)))
    listed = SUBMISSIONS.document(story.state().submissions)["submissions"]
    assert [(item["id"], item["status"]) for item in listed] == [(2, "placed"), (queued, "queued")]
