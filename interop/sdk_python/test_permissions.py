"""The permission callback: allow, deny, other input, rules to remember, and questions for a person."""

import json

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    PermissionUpdate,
    ResultMessage,
    ToolResultBlock,
    UserMessage,
)
from claude_agent_sdk.types import PermissionRuleValue

from conftest import call, collect, of, only, text

pytestmark = pytest.mark.anyio


async def ask(bench, model, prompt, **options):
    async with ClaudeSDKClient(bench.options(model, **options)) as client:
        await client.query(prompt)
        return await collect(client.receive_response())


def results(messages):
    return [b for m in of(messages, UserMessage) for b in m.content if isinstance(b, ToolResultBlock)]


async def test_allow_lets_the_call_run(bench):
    seen = []

    async def callback(tool, tool_input, context):
        seen.append((tool, tool_input, context))
        return PermissionResultAllow()

    file = bench.project / "new.txt"
    model = bench.model(call("Write", {"file_path": str(file), "content": "hi\n"}), text("written"))
    messages = await ask(bench, model, "write", can_use_tool=callback)
    tool, tool_input, context = only(seen)
    assert (tool, tool_input["file_path"]) == ("Write", str(file))
    assert context.tool_use_id and context.suggestions
    assert file.read_text() == "hi\n"
    assert messages[-1].permission_denials == []


async def test_deny_tells_the_model_why_and_is_counted(bench):
    async def callback(tool, tool_input, context):
        return PermissionResultDeny(message="not on a Sunday")

    file = bench.project / "new.txt"
    model = bench.model(call("Write", {"file_path": str(file), "content": "hi\n"}), text("understood"))
    messages = await ask(bench, model, "write", can_use_tool=callback)
    result = only(results(messages))
    assert result.is_error and "not on a Sunday" in str(result.content)
    assert not file.exists()
    denial = only(messages[-1].permission_denials)
    assert denial["tool_name"] == "Write"
    assert not messages[-1].is_error and messages[-1].result == "understood"


async def test_deny_with_interrupt_ends_the_turn(bench):
    async def callback(tool, tool_input, context):
        return PermissionResultDeny(message="stop it", interrupt=True)

    model = bench.model(call("Write", {"file_path": str(bench.project / "x"), "content": "x"}))
    messages = await ask(bench, model, "write", can_use_tool=callback)
    assert messages[-1].subtype == "error_during_execution"
    assert len(model.requests()) == 1


async def test_an_edited_input_is_what_runs(bench):
    async def callback(tool, tool_input, context):
        return PermissionResultAllow(updated_input={**tool_input, "content": "edited\n"})

    file = bench.project / "new.txt"
    model = bench.model(call("Write", {"file_path": str(file), "content": "original\n"}), text("ok"))
    await ask(bench, model, "write", can_use_tool=callback)
    assert file.read_text() == "edited\n"


async def test_remembered_rules_hold_in_the_session_and_on_disk(bench):
    asked = []

    async def callback(tool, tool_input, context):
        asked.append(tool_input["command"])
        rule = PermissionRuleValue(tool_name="Bash", rule_content="touch *")
        for_session = PermissionUpdate(type="addRules", rules=[rule], behavior="allow", destination="session")
        kept = PermissionUpdate(
            type="addRules",
            rules=[PermissionRuleValue(tool_name="Bash", rule_content="make *")],
            behavior="allow",
            destination="localSettings",
        )
        return PermissionResultAllow(updated_permissions=[for_session, kept])

    model = bench.model(
        call("Bash", {"command": "touch one"}), call("Bash", {"command": "touch two"}), text("done")
    )
    await ask(bench, model, "touch", can_use_tool=callback)
    assert asked == ["touch one"], "the second call is covered by the new rule"
    assert (bench.project / "one").exists() and (bench.project / "two").exists()
    local = json.loads((bench.project / ".claude" / "settings.local.json").read_text())
    assert local["permissions"]["allow"] == ["Bash(make *)"]


async def test_the_suggestion_can_be_given_back_unchanged(bench):
    asked = []

    async def callback(tool, tool_input, context):
        asked.append(tool_input["command"])
        return PermissionResultAllow(updated_permissions=context.suggestions)

    again = call("Bash", {"command": "touch again.txt"})
    model = bench.model(again, again, text("done"))
    await ask(bench, model, "go", can_use_tool=callback)
    assert asked == ["touch again.txt"]


async def test_a_deny_rule_is_never_asked_about(bench):
    async def callback(tool, tool_input, context):
        raise AssertionError("nobody may be asked")

    model = bench.model(call("Bash", {"command": "touch x"}), text("ok"))
    messages = await ask(bench, model, "go", can_use_tool=callback, disallowed_tools=["Bash(touch *)"])
    assert only(results(messages)).is_error and not (bench.project / "x").exists()


async def test_without_a_callback_a_question_is_a_refusal(bench):
    model = bench.model(call("Bash", {"command": "touch x"}), text("could not"))
    messages = await ask(bench, model, "go")
    assert only(results(messages)).is_error and not (bench.project / "x").exists()
    assert only(messages[-1].permission_denials)["tool_name"] == "Bash"


async def test_a_callback_that_fails_is_a_refusal(bench):
    async def callback(tool, tool_input, context):
        raise ValueError("callback broke")

    model = bench.model(call("Bash", {"command": "touch x"}), text("ok"))
    messages = await ask(bench, model, "go", can_use_tool=callback)
    assert "callback broke" in str(only(results(messages)).content)


async def test_ask_user_question_brings_the_answers_to_the_model(bench):
    question = {
        "question": "Which colour?",
        "header": "Colour",
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
        "multiSelect": False,
    }
    seen = []

    async def callback(tool, tool_input, context):
        seen.append(tool)
        return PermissionResultAllow(updated_input={**tool_input, "answers": {"Which colour?": "Blue"}})

    for mode in ["default", "bypassPermissions"]:
        model = bench.model(call("AskUserQuestion", {"questions": [question]}), text("blue it is"))
        messages = await ask(
            bench, model, "ask", can_use_tool=callback, permission_mode=mode, env={"IS_SANDBOX": "1"}
        )
        assert "Blue" in str(only(results(messages)).content)
        assert "Blue" in json.dumps(model.requests()[1]["messages"])
    assert seen == ["AskUserQuestion", "AskUserQuestion"]


async def test_leaving_plan_mode_is_asked_about(bench):
    seen = []

    async def callback(tool, tool_input, context):
        seen.append((tool, tool_input.get("plan")))
        return PermissionResultAllow()

    file = bench.project / "x.txt"
    model = bench.model(
        call("ExitPlanMode", {"plan": "1. write x"}),
        call("Write", {"file_path": str(file), "content": "x"}),
        text("done"),
    )
    await ask(bench, model, "plan it", can_use_tool=callback, permission_mode="plan")
    assert seen[0] == ("ExitPlanMode", "1. write x")
    assert seen[1][0] == "Write" and file.exists(), "after the plan was approved edits ask as usual"
