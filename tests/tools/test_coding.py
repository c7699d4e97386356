"""Which tools a coding agent has, and what may happen to them after a crash."""

import pytest

from pi_actors.tools import Tool, coding_tools


def test_only_the_pure_readers_are_safe_to_run_again() -> None:
    """V346."""
    policies = {each.name: each.facts().replay for each in coding_tools()}
    assert policies == {
        "read": "safe",
        "grep": "safe",
        "find": "safe",
        "ls": "safe",
        "write": "never",
        "edit": "never",
        "bash": "never",
    }


@pytest.mark.parametrize("each", coding_tools(), ids=lambda each: each.name)
def test_a_model_is_told_what_each_tool_and_argument_is_for(each: Tool) -> None:
    assert each.description
    assert "ctx" not in each.parameters["properties"]
    undescribed = [
        name for name, schema in each.parameters["properties"].items() if "description" not in schema
    ]
    assert undescribed == []
