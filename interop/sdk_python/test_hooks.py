"""Hooks that the program registers: every kind the SDK offers, what they see and what they change."""

import json
import typing

import anyio
import pytest
from claude_agent_sdk import (
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    ResultMessage,
    ToolResultBlock,
    UserMessage,
    query,
)
from claude_agent_sdk.types import HookEvent

from conftest import call, collect, of, only, text

pytestmark = pytest.mark.anyio


def recorder(seen, output=None):
    async def hook(hook_input, tool_use_id, context):
        seen.append((hook_input, tool_use_id))
        return output or {}

    return hook


async def run(bench, model, prompt, **options):
    return await collect(query(prompt=prompt, options=bench.options(model, **options)))


def results(messages):
    return [b for m in of(messages, UserMessage) if isinstance(m.content, list) for b in m.content
            if isinstance(b, ToolResultBlock)]


def specific(event, **members):
    return {"hookSpecificOutput": {"hookEventName": event, **members}}


async def test_pre_tool_use_sees_the_call_and_only_what_it_matches(bench):
    seen, other = [], []
    model = bench.model(call("Bash", {"command": "ls"}), text("ok"))
    hooks = {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[recorder(seen)]),
                            HookMatcher(matcher="Write|Edit", hooks=[recorder(other)])]}
    messages = await run(bench, model, "list", hooks=hooks)
    hook_input, tool_use_id = only(seen)
    assert hook_input["hook_event_name"] == "PreToolUse" and hook_input["tool_name"] == "Bash"
    assert hook_input["tool_input"]["command"] == "ls"
    assert hook_input["tool_use_id"] == tool_use_id == only(results(messages)).tool_use_id
    assert hook_input["cwd"] == str(bench.project)
    assert hook_input["session_id"] == messages[-1].session_id
    assert hook_input["transcript_path"].endswith(f"{messages[-1].session_id}.jsonl")
    assert other == []


async def test_pre_tool_use_can_deny_with_a_reason(bench):
    denied = specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="not today")
    model = bench.model(call("Bash", {"command": "touch x"}), text("ok"))
    hooks = {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[recorder([], denied)])]}
    messages = await run(bench, model, "go", hooks=hooks, allowed_tools=["Bash"])
    result = only(results(messages))
    assert result.is_error and "not today" in str(result.content)
    assert not (bench.project / "x").exists()


async def test_pre_tool_use_can_allow_what_would_have_asked_but_not_what_a_rule_denies(bench):
    allowed = specific("PreToolUse", permissionDecision="allow", permissionDecisionReason="fine")
    hooks = {"PreToolUse": [HookMatcher(hooks=[recorder([], allowed)])]}
    model = bench.model(call("Bash", {"command": "touch x"}), text("ok"))
    await run(bench, model, "go", hooks=hooks)
    assert (bench.project / "x").exists()
    model = bench.model(call("Bash", {"command": "touch y"}), text("ok"))
    await run(bench, model, "go", hooks=hooks, disallowed_tools=["Bash(touch *)"])
    assert not (bench.project / "y").exists()


async def test_pre_tool_use_can_change_the_input(bench):
    changed = specific("PreToolUse", permissionDecision="allow", updatedInput={"command": "touch changed"})
    hooks = {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[recorder([], changed)])]}
    model = bench.model(call("Bash", {"command": "touch original"}), text("ok"))
    await run(bench, model, "go", hooks=hooks)
    assert (bench.project / "changed").exists() and not (bench.project / "original").exists()


async def test_pre_tool_use_can_force_a_question_that_shows_its_reason(bench):
    asks = specific("PreToolUse", permissionDecision="ask", permissionDecisionReason="looks odd")
    reasons = []

    async def callback(tool, tool_input, context):
        reasons.append(context.decision_reason)
        return PermissionResultAllow()

    model = bench.model(call("Bash", {"command": "ls"}), text("ok"))
    options = bench.options(
        model,
        can_use_tool=callback,
        hooks={"PreToolUse": [HookMatcher(matcher="Bash", hooks=[recorder([], asks)])]},
    )
    async with ClaudeSDKClient(options) as client:
        await client.query("list")
        await collect(client.receive_response())
    assert "looks odd" in only(reasons)


async def test_post_tool_use_sees_the_result_and_adds_to_it(bench):
    seen = []
    more = specific("PostToolUse", additionalContext="the listing was checked by the host")
    hooks = {"PostToolUse": [HookMatcher(matcher="Bash", hooks=[recorder(seen, more)])]}
    model = bench.model(call("Bash", {"command": "echo out"}), text("ok"))
    await run(bench, model, "go", hooks=hooks)
    hook_input, _ = only(seen)
    assert hook_input["tool_response"]["stdout"].strip() == "out"
    assert "checked by the host" in json.dumps(model.requests()[1]["messages"])


async def test_post_tool_use_failure_sees_the_error(bench):
    seen, successes = [], []
    hooks = {
        "PostToolUseFailure": [HookMatcher(hooks=[recorder(seen)])],
        "PostToolUse": [HookMatcher(hooks=[recorder(successes)])],
    }
    model = bench.model(call("Read", {"file_path": str(bench.project / "missing")}), text("ok"))
    await run(bench, model, "go", hooks=hooks)
    hook_input, _ = only(seen)
    assert hook_input["tool_name"] == "Read" and hook_input["error"]
    assert successes == []


async def test_user_prompt_submit_adds_context_and_can_block(bench):
    seen = []
    more = specific("UserPromptSubmit", additionalContext="it is Tuesday")
    hooks = {"UserPromptSubmit": [HookMatcher(hooks=[recorder(seen, more)])]}
    model = bench.model(text("ok"))
    await run(bench, model, "which day?", hooks=hooks)
    assert only(seen)[0]["prompt"] == "which day?"
    assert "it is Tuesday" in json.dumps(only(model.requests())["messages"])
    blocked = {"decision": "block", "reason": "not that word"}
    model = bench.model()
    messages = await run(bench, model, "bad word", hooks={"UserPromptSubmit": [HookMatcher(hooks=[recorder([], blocked)])]})
    assert "not that word" in messages[-1].result and model.requests() == []


async def test_stop_can_make_the_model_go_on(bench):
    seen = []

    async def hook(hook_input, tool_use_id, context):
        seen.append(hook_input)
        if hook_input["stop_hook_active"]:
            return {}
        return {"decision": "block", "reason": "say goodbye first"}

    model = bench.model(text("done"), text("goodbye"))
    messages = await run(bench, model, "go", hooks={"Stop": [HookMatcher(hooks=[hook])]})
    assert messages[-1].result == "goodbye" and len(seen) == 2
    assert seen[0]["last_assistant_message"] == "done"
    assert "say goodbye first" in json.dumps(model.requests()[1]["messages"])


async def test_permission_request_can_answer_in_place_of_a_person(bench):
    seen = []
    allowed = specific("PermissionRequest", decision={"behavior": "allow"})
    model = bench.model(call("Bash", {"command": "touch x"}), text("ok"))
    await run(bench, model, "go", hooks={"PermissionRequest": [HookMatcher(hooks=[recorder(seen, allowed)])]})
    assert only(seen)[0]["tool_name"] == "Bash" and (bench.project / "x").exists()


async def test_subagent_start_and_stop_frame_the_agent(bench):
    starts, stops = [], []
    hooks = {
        "SubagentStart": [HookMatcher(hooks=[recorder(starts)])],
        "SubagentStop": [HookMatcher(hooks=[recorder(stops)])],
    }
    agent = {"description": "look", "prompt": "look around", "subagent_type": "Explore", "run_in_background": False}
    model = bench.model(call("Agent", agent), text("I looked."), text("it looked"))
    await run(bench, model, "explore", hooks=hooks)
    assert only(starts)[0]["agent_type"] == "Explore"
    assert only(stops)[0]["agent_id"] == starts[0][0]["agent_id"]


async def test_continue_false_ends_the_turn(bench):
    stop = {"continue_": False, "stopReason": "enough"}
    hooks = {"PostToolUse": [HookMatcher(hooks=[recorder([], stop)])]}
    model = bench.model(call("Bash", {"command": "ls"}))
    messages = await run(bench, model, "go", hooks=hooks)
    assert messages[-1].subtype == "success" and len(model.requests()) == 1


async def test_a_failing_hook_goes_on_unless_it_is_told_to_block(bench):
    async def broken(hook_input, tool_use_id, context):
        raise ValueError("hook broke")

    go_on = {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[broken])]}
    model = bench.model(call("Bash", {"command": "ls"}), text("ok"))
    assert not only(results(await run(bench, model, "go", hooks=go_on))).is_error
    block = {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[broken], on_failure="block")]}
    model = bench.model(call("Bash", {"command": "ls"}), text("ok"))
    assert only(results(await run(bench, model, "go", hooks=block))).is_error


async def test_a_hook_that_never_answers_blocks_the_call_after_its_time(bench):
    async def slow(hook_input, tool_use_id, context):
        await anyio.sleep(600)

    hooks = {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[slow], timeout=0.3)]}
    model = bench.model(call("Bash", {"command": "touch x"}), text("ok"))
    with anyio.fail_after(30):
        messages = await run(bench, model, "go", hooks=hooks, allowed_tools=["Bash"])
    assert only(results(messages)).is_error and not (bench.project / "x").exists()


async def test_notification_tells_that_a_person_is_waited_for(bench):
    seen, others = [], []

    async def callback(tool, tool_input, context):
        with anyio.fail_after(20):
            while not seen:
                await anyio.sleep(0.01)
        return PermissionResultAllow()

    model = bench.model(call("Bash", {"command": "touch x"}), text("ok"))
    hooks = {"Notification": [HookMatcher(matcher="permission_prompt", hooks=[recorder(seen)]),
                              HookMatcher(matcher="idle_prompt", hooks=[recorder(others)])]}
    async with ClaudeSDKClient(bench.options(model, can_use_tool=callback, hooks=hooks)) as client:
        await client.query("go")
        messages = await collect(client.receive_response())
    told, tool_use_id = only(seen)
    assert (told["hook_event_name"], told["notification_type"]) == ("Notification", "permission_prompt")
    assert "Bash" in told["message"] and tool_use_id is None
    assert told["session_id"] == messages[-1].session_id and told["cwd"] == str(bench.project)
    assert others == [] and (bench.project / "x").exists()


async def test_pre_compact_is_accepted_and_has_no_occasion(bench):
    seen = []
    model = bench.model(text("ok"))
    hooks = {"PreCompact": [HookMatcher(hooks=[recorder(seen)])]}
    assert (await run(bench, model, "hi", hooks=hooks))[-1].result == "ok" and seen == []


async def test_a_call_that_was_left_for_later_runs_when_the_session_is_resumed(bench):
    later = specific("PreToolUse", permissionDecision="defer")
    hooks = {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[recorder([], later)])]}
    model = bench.model(call("Bash", {"command": "touch x"}))
    first = await run(bench, model, "go", hooks=hooks, allowed_tools=["Bash"])
    assert (first[-1].stop_reason, first[-1].is_error) == ("tool_deferred", False)
    assert not (bench.project / "x").exists()

    seen = []
    hooks = {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[recorder(seen)])]}
    model = bench.model(text("done"))
    options = {"hooks": hooks, "allowed_tools": ["Bash"], "resume": first[-1].session_id}
    second = await run(bench, model, "go on", **options)
    assert second[-1].result == "done" and (bench.project / "x").exists()
    assert only(seen)[0]["tool_input"]["command"] == "touch x"
    assert not only(results(second)).is_error


# The test that shows each kind of hook at work.
SHOWN_BY = {
    "PreToolUse": test_pre_tool_use_sees_the_call_and_only_what_it_matches,
    "PostToolUse": test_post_tool_use_sees_the_result_and_adds_to_it,
    "PostToolUseFailure": test_post_tool_use_failure_sees_the_error,
    "UserPromptSubmit": test_user_prompt_submit_adds_context_and_can_block,
    "Stop": test_stop_can_make_the_model_go_on,
    "SubagentStart": test_subagent_start_and_stop_frame_the_agent,
    "SubagentStop": test_subagent_start_and_stop_frame_the_agent,
    "Notification": test_notification_tells_that_a_person_is_waited_for,
    "PermissionRequest": test_permission_request_can_answer_in_place_of_a_person,
}
# There is no compaction yet, so nothing that this one could be called for.
WITHOUT_OCCASION = {"PreCompact": test_pre_compact_is_accepted_and_has_no_occasion}


def test_every_kind_that_the_sdk_has_is_shown():
    offered = {name for kind in typing.get_args(HookEvent) for name in typing.get_args(kind) or [kind]}
    assert offered == set(SHOWN_BY) | set(WITHOUT_OCCASION), "the SDK has other kinds of hooks than these tests"
