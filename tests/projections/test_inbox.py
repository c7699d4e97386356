"""pi.inbox."""

import msgspec
import pytest

from pi_actors.actors.agent.messages import (
    AgentConfigured,
    EntryDraft,
    InboxReleased,
    RunEnded,
    RunStarted,
    SubmissionPlaced,
    SubmissionQueued,
    SubmissionSettled,
)
from pi_actors.core.decider import Event
from pi_actors.core.errors import UnansweredReason
from pi_actors.core.lifecycle import Choices
from pi_actors.core.messages import user_message
from tests.projections.story import ROOT, Story


def queued(text: str, mode: str = "follow_up") -> SubmissionQueued:
    assert mode in ("follow_up", "steer")
    entry = EntryDraft(kind="pi.user", messages=(user_message(text),))
    return SubmissionQueued(mode="steer" if mode == "steer" else "follow_up", entry=entry, request_id="r")


def busy() -> Story:
    story = Story()
    story.spawn_root()
    story.ask()
    return story


def held(reason: UnansweredReason) -> Story:
    story = busy()
    story.commit((ROOT, RunEnded(run=4, inputs=(2,), reason=reason, detail="why")))
    return story


def items(story: Story) -> list[dict[str, object]]:
    return msgspec.convert(story.document("pi.inbox")["items"], list[dict[str, object]])


def ids(story: Story) -> list[object]:
    return [item["id"] for item in items(story)]


def test_queued_items_stand_in_the_order_they_came() -> None:
    story = busy()
    first = story.commit((ROOT, queued("later")))
    second = story.commit((ROOT, queued("soon", "steer")))
    assert story.document("pi.inbox") == {
        "items": [
            {
                "id": first,
                "mode": "follow_up",
                "kind": "pi.user",
                "text": "later",
                "messages": [{"role": "user", "parts": [{"type": "text", "text": "later"}]}],
                "queued_at": "2023-11-14T22:13:22Z",
                "request_id": "r",
            },
            {
                "id": second,
                "mode": "steer",
                "kind": "pi.user",
                "text": "soon",
                "messages": [{"role": "user", "parts": [{"type": "text", "text": "soon"}]}],
                "queued_at": "2023-11-14T22:13:23Z",
                "request_id": "r",
            },
        ],
        "held": None,
    }


def test_the_preview_of_a_long_text_is_short() -> None:
    story = busy()
    story.commit((ROOT, queued("x" * 1000)))
    assert items(story)[0]["text"] == "x" * 199 + "…"


def test_placed_and_withdrawn_items_leave_the_inbox() -> None:
    """Scenario A15 for the second."""
    story = busy()
    one = story.commit((ROOT, queued("one")))
    two = story.commit((ROOT, queued("two")))
    three = story.commit((ROOT, queued("three")))
    story.commit((ROOT, SubmissionPlaced(mode="steer", entry=story.position + 2, submission=two)))
    story.commit((ROOT, SubmissionSettled(submission=one, reason="aborted")))
    assert ids(story) == [three]


@pytest.mark.parametrize("reason", ["no_model", "model_error", "recovery_exhausted"])
def test_the_inbox_is_held_after_an_end_that_would_hit_the_next_input_too(reason: UnansweredReason) -> None:
    """Scenario A20."""
    assert held(reason).document("pi.inbox")["held"] == {"reason": reason, "detail": "why"}


@pytest.mark.parametrize("reason", ["aborted", "reset", "stale", "faulted"])
def test_the_inbox_is_not_held_after_any_other_end(reason: UnansweredReason) -> None:
    """Scenario A20."""
    assert held(reason).document("pi.inbox")["held"] is None


@pytest.mark.parametrize(
    "event",
    [
        queued("go on"),
        SubmissionPlaced(mode="follow_up", entry=7),
        AgentConfigured(choices=Choices(model="other")),
        InboxReleased(),
        RunStarted(inputs=(2,)),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_held_inbox_is_released(event: Event) -> None:
    story = held("no_model")
    story.commit((ROOT, event))
    assert story.document("pi.inbox")["held"] is None


def test_an_item_that_is_withdrawn_leaves_the_inbox_held() -> None:
    story = busy()
    item = story.commit((ROOT, queued("one")))
    story.commit((ROOT, RunEnded(run=4, inputs=(2,), reason="model_error")))
    story.commit((ROOT, SubmissionSettled(submission=item, reason="aborted")))
    assert story.document("pi.inbox") == {"items": [], "held": {"reason": "model_error", "detail": None}}
