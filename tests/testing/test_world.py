"""A world that remembers what was done to it."""

from pathlib import Path

import pytest

from pi_actors import open_session
from pi_actors.models import ScriptedModel, call, reply
from pi_actors.testing import Effect, EffectsFile, PromiseBroken, check_effects, effect_tools, read_log


async def test_every_execution_leaves_a_line_under_its_idempotency_key(tmp_path: Path) -> None:
    file = EffectsFile(tmp_path / "effects")
    assert file.effects() == []
    model = ScriptedModel(
        [reply("", call("look", what="a"), call("push", what="b"), call("pay", what="c")), reply("ok")]
    )
    async with open_session("memory:", model=model, tools=effect_tools(file)) as session:
        await session.root.ask("go")
        uuid, (entry,) = session.uuid, [each.id for each in await session.root.entries() if each.text == ""]
    assert sorted(file.effects(), key=lambda effect: effect.key) == [
        Effect(key=f"{uuid}:{entry}:0", tool="look", said="a"),
        Effect(key=f"{uuid}:{entry}:1", tool="push", said="b"),
        Effect(key=f"{uuid}:{entry}:2", tool="pay", said="c"),
    ]
    file.add(Effect(key=f"{uuid}:{entry}:0", tool="look", said="a"))
    assert EffectsFile(file.path).by_key("look") == {f"{uuid}:{entry}:0": 2}
    assert len(file.by_key()) == 3


async def test_what_was_done_is_compared_with_what_the_log_says(tmp_path: Path) -> None:
    file = EffectsFile(tmp_path / "effects")
    model = ScriptedModel([reply("", call("look", what="a"), call("push", what="b")), reply("ok")])
    async with open_session("memory:", model=model, tools=effect_tools(file)) as session:
        await session.root.ask("go")
        log = read_log(session.live.store.log)
    assert [result.name for result in check_effects(log, file)] == ["look", "push"]
    look, push = file.effects()
    file.add(look)
    check_effects(log, file)
    spoilt = EffectsFile(tmp_path / "spoilt")
    spoilt.add(push)
    with pytest.raises(PromiseBroken, match="was not done"):
        check_effects(log, spoilt)
    file.add(push)
    with pytest.raises(PromiseBroken, match="was done 2 times"):
        check_effects(log, file)
    spoilt.add(look)
    spoilt.add(Effect(key="nobody's", tool="push"))
    with pytest.raises(PromiseBroken, match="nobody's was done and has no result"):
        check_effects(log, spoilt)
