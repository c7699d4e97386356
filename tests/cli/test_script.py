"""A scripted model in a JSON file: every answer it can give, and what is said about a file that is none."""

import json
from pathlib import Path

import pytest

from pi_actors.cli.models import model_of
from pi_actors.cli.script import scripted_file
from pi_actors.core.errors import UnknownName
from pi_actors.core.messages import Call, Text, Thinking
from pi_actors.models import ModelFailed, ModelRequest, ModelResponse, StreamDelta


def written(folder: Path, script: object) -> Path:
    """A file with *script* as JSON."""
    file = folder / "script.json"
    file.write_text(json.dumps(script))
    return file


async def said(folder: Path, script: object, *, turn: int = 0, attempt: int = 1) -> ModelResponse:
    """What the model of *script* answers."""
    deltas: list[StreamDelta] = []
    model = scripted_file(written(folder, script), name="it")
    return await model.stream(ModelRequest(messages=(), turn=turn, attempt=attempt), deltas.append)


async def test_answers_go_by_turn(tmp_path: Path) -> None:
    for script in (["one", "two"], {"turns": ["one", "two"], "chunk_ms": 1}):
        assert (await said(tmp_path, script, turn=1)).parts == (Text(text="two"),)


async def test_an_answer_has_thinking_text_and_calls(tmp_path: Path) -> None:
    answer = {
        "thinking": "Where?",
        "text": "Here.",
        "calls": [
            {"name": "ls"},
            {"name": "read", "arguments": {"path": "a"}},
            {"name": "x", "arguments": "{"},
        ],
    }
    response = await said(tmp_path, [answer])
    thinking, text, *calls = response.parts
    assert (thinking, text) == (Thinking(text="Where?"), Text(text="Here."))
    wishes = [(call.name, call.arguments) for call in calls if isinstance(call, Call)]
    assert wishes == [("ls", "{}"), ("read", '{"path":"a"}'), ("x", "{")]
    assert response.stop == "calls"


async def test_the_attempts_of_a_turn_have_answers_of_their_own(tmp_path: Path) -> None:
    script = [[{"fail": "overloaded", "retry_after_ms": 7}, "At last."]]
    with pytest.raises(ModelFailed, match="overloaded") as failed:
        await said(tmp_path, script)
    assert (failed.value.kind, failed.value.retry_after_ms) == ("retryable", 7)
    assert (await said(tmp_path, script, attempt=2)).parts == (Text(text="At last."),)


async def test_it_plays_faults(tmp_path: Path) -> None:
    assert (await said(tmp_path, [{"cut": "half an ans"}])).stop is None
    for fault, kind in (({"overflow": True}, "overflow"), ({"fail": "no", "retryable": False}, "fatal")):
        with pytest.raises(ModelFailed) as failed:
            await said(tmp_path, [fault])
        assert failed.value.kind == kind


async def test_summaries_and_the_context_window_are_part_of_the_script(tmp_path: Path) -> None:
    script = {"turns": [], "summaries": [[{"fail": "overloaded"}, "Much."]], "context_window": 9_000}
    model = scripted_file(written(tmp_path, script), name="it")
    assert model.context_window == 9_000
    asked = ModelRequest(messages=(), turn=0, attempt=2, purpose="summary")
    assert (await model.stream(asked, lambda _: None)).parts == (Text(text="Much."),)


@pytest.mark.parametrize(
    ("text", "says_what"),
    [
        ("{", "is no script: "),
        ('{"turn": []}', "unknown field `turn`"),
        ('[{"txt": "x"}]', "unknown field `txt`"),
        ("[[]]", "needs an answer for attempt 1"),
        ('{"turns": ["x"], "chunk_ms": -1}', "chunk_ms"),
        ('{"turns": ["x"], "context_window": 0}', "context_window"),
    ],
)
def test_a_file_that_is_no_script_is_told_where_and_why(tmp_path: Path, text: str, says_what: str) -> None:
    file = tmp_path / "script.json"
    file.write_text(text)
    with pytest.raises(UnknownName, match=says_what):
        model_of(f"scripted:{file}")
