"""Agents given by the program, and the built-in ones."""

import json

import anyio
import pytest
from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeSDKClient,
    SystemMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    list_subagents,
    query,
)

from conftest import call, collect, of, only, text

pytestmark = pytest.mark.anyio

GREETER = {
    "greeter": AgentDefinition(
        description="Greets people.", prompt="You greet people in verse.", tools=["Read"], background=False
    )
}


def launch(kind, **more):
    return call(
        "Agent",
        {"description": "greet", "prompt": "greet Ada", "subagent_type": kind, "run_in_background": False, **more},
    )


async def test_an_agent_of_the_program_runs_with_its_own_prompt_and_tools(bench):
    file = bench.project / "a.txt"
    file.write_text("Ada\n")
    model = bench.model(
        launch("greeter"), call("Read", {"file_path": str(file)}), text("Hail, Ada!"), text("It greeted.")
    )
    options = bench.options(model, agents=GREETER, system_prompt={"type": "preset", "preset": "claude_code"})
    messages = await collect(query(prompt="greet", options=options))
    init = messages[0].data
    assert "greeter" in init["agents"] and "general-purpose" in init["agents"]
    agent_request = model.requests()[1]
    assert "You greet people in verse." in json.dumps(agent_request["system"])
    assert [t["name"] for t in agent_request["tools"]] == ["Read"]
    use = only(
        [b for m in of(messages, AssistantMessage) if m.parent_tool_use_id is None for b in m.content
         if isinstance(b, ToolUseBlock)]
    )
    inside = [m for m in messages if getattr(m, "parent_tool_use_id", None) == use.id]
    assert inside, "what the agent does is shown under the call that started it"
    assert not [b for m in of(inside, AssistantMessage) for b in m.content if isinstance(b, TextBlock)], (
        "its words are not, unless they are asked for"
    )
    outer = only(
        [b for m in of(messages, UserMessage) if m.parent_tool_use_id is None and isinstance(m.content, list)
         for b in m.content if isinstance(b, ToolResultBlock)]
    )
    assert "Hail, Ada!" in str(outer.content)
    started = only(of(messages, TaskStartedMessage))
    assert only([m for m in of(messages, TaskNotificationMessage) if m.task_id == started.task_id]).status == "completed"
    assert messages[-1].result == "It greeted."
    assert list_subagents(messages[-1].session_id, directory=str(bench.project))


async def test_the_words_of_agents_can_be_forwarded(bench):
    model = bench.model(launch("greeter"), text("Hail, Ada!"), text("done"))
    options = bench.options(model, agents=GREETER, forward_subagent_text=True)
    messages = await collect(query(prompt="greet", options=options))
    inside = [m for m in of(messages, AssistantMessage) if m.parent_tool_use_id]
    assert "Hail, Ada!" in [b.text for m in inside for b in m.content if isinstance(b, TextBlock)]


async def test_a_large_set_of_agents_is_taken(bench):
    agents = {
        f"agent{n}": AgentDefinition(description="d" * 100, prompt="p" * 12_000, tools=["Read"]) for n in range(20)
    }
    model = bench.model(text("ok"))
    messages = await collect(query(prompt="hi", options=bench.options(model, agents=agents)))
    assert set(agents) <= set(messages[0].data["agents"])


async def test_an_unknown_type_is_an_error_that_lists_the_known_ones(bench):
    model = bench.model(launch("nobody"), text("ok"))
    messages = await collect(query(prompt="go", options=bench.options(model, agents=GREETER)))
    result = only([b for m in of(messages, UserMessage) for b in m.content if isinstance(b, ToolResultBlock)])
    assert result.is_error and "greeter" in str(result.content)


async def test_a_message_goes_on_with_an_agent_of_an_earlier_run(bench):
    first = bench.model(launch("greeter", name="bard"), text("Hail, Ada!"), text("It greeted."))
    messages = await collect(query(prompt="greet", options=bench.options(first, agents=GREETER)))
    started = only(of(messages, TaskStartedMessage))
    second = bench.model(
        call("SendMessage", {"to": "bard", "message": "And Bob."}),
        {**text("Hail, Bob!"), "when": {"system_contains": "You greet people in verse."}},
        {**text("Bob too."), "when": {"last_user_text": "Hail, Bob!"}},
        {**text("It goes on."), "when": {"tool_result_contains": "goes on with your message"}},
    )
    options = bench.options(second, agents=GREETER, resume=messages[-1].session_id)
    async with ClaudeSDKClient(options) as client:
        await client.query("and Bob")
        seen = []
        # The report wakes the session, unless it came while the turn still ran.
        with anyio.fail_after(30):
            async for message in client.receive_messages():
                seen.append(message)
                if getattr(message, "result", None) == "Bob too.":
                    break
    again = only(of(seen, TaskStartedMessage))
    assert (again.task_id, again.tool_use_id) == (started.task_id, started.tool_use_id)
    assert only(of(seen, TaskNotificationMessage)).status == "completed"
    assert seen[-1].result == "Bob too."
    asked = only([r for r in second.requests() if "You greet people in verse." in json.dumps(r.get("system"))])
    assert "Hail, Ada!" in json.dumps(asked["messages"]), "it knows what it said before"
    assert [t["name"] for t in asked["tools"]] == ["Read"]


async def background(client, **which):
    """The request has no method of its own in the SDK yet."""
    return await client._query._send_control_request({"subtype": "background_tasks", **which})


async def test_a_running_command_is_moved_to_the_background(bench):
    model = bench.model(
        call("Bash", {"command": "touch started; until [ -e go ]; do sleep 0.05; done; echo late"}),
        text("It goes on."),
        {**text("It ended."), "when": {"last_user_text": "ended with exit code 0"}},
    )
    options = bench.options(model, permission_mode="bypassPermissions")
    async with ClaudeSDKClient(options) as client:
        await client.query("run it")
        with anyio.fail_after(30):
            while not (bench.project / "started").exists():
                await anyio.sleep(0.02)
            assert (await background(client, tool_use_id="toolu_other")) == {"matched": False}
            # The command can be quicker than the call that waits for it.
            while (await background(client)) != {"matched": True}:
                await anyio.sleep(0.02)
            first = await collect(client.receive_response())
            assert first[-1].result == "It goes on."
            assert (await background(client)) == {"matched": False}
            (bench.project / "go").touch()
            second = await collect(client.receive_response())
    assert second[-1].result == "It ended."
    output = only([m.tool_use_result for m in of(first, UserMessage) if m.tool_use_result])
    assert output["backgroundedByUser"] and output["backgroundTaskId"] == only(of(first, TaskStartedMessage)).task_id
    assert only(of(second, TaskNotificationMessage)).status == "completed"


async def test_a_running_agent_is_moved_to_the_background(bench):
    slow = "touch started; until [ -e go ]; do sleep 0.05; done"
    agents = {"slow": AgentDefinition(description="Waits.", prompt="You wait.", tools=["Bash"], background=False)}
    agent = {"system_contains": "You wait."}
    model = bench.model(
        launch("slow"),
        {**call("Bash", {"command": slow}), "when": {**agent, "messages": 1}},
        {**text("Hail, Ada!"), "when": {**agent, "messages": 3}},
        text("It goes on."),
        {**text("It greeted."), "when": {"last_user_text": "Hail, Ada!"}},
    )
    options = bench.options(model, agents=agents, permission_mode="bypassPermissions")
    async with ClaudeSDKClient(options) as client:
        await client.query("greet")
        with anyio.fail_after(30):
            while not (bench.project / "started").exists():
                await anyio.sleep(0.02)
            assert (await background(client)) == {"matched": True}
            first = await collect(client.receive_response())
            assert first[-1].result == "It goes on."
            (bench.project / "go").touch()
            second = await collect(client.receive_response())
    assert second[-1].result == "It greeted."
    levels = [m.data["tasks"] for m in of(first + second, SystemMessage) if m.subtype == "background_tasks_changed"]
    assert [len(tasks) for tasks in levels] == [1, 0]
    assert only(of(second, TaskNotificationMessage)).status == "completed"


async def test_the_conversation_itself_runs_as_an_agent_of_the_program(bench):
    model = bench.model(text("Hail!"))
    options = bench.options(model, agents=GREETER, extra_args={"agent": "greeter"})
    messages = await collect(query(prompt="greet", options=options))
    request = only(model.requests())
    assert messages[-1].result == "Hail!" and bench.stderr == []
    assert "You greet people in verse." in json.dumps(request["system"])
    assert [t["name"] for t in request["tools"]] == ["Read"] and messages[0].data["tools"] == ["Read"]


async def test_an_interrupt_ends_agents_in_the_background(bench):
    wait = {"when": {"system_contains": "You are an agent of gimlet"},
            **call("Bash", {"command": "touch begun; sleep 600"})}
    agent = {"description": "wait", "prompt": "wait", "subagent_type": "general-purpose", "run_in_background": True}
    model = bench.model(call("Agent", agent), text("it waits"), wait)
    async with ClaudeSDKClient(bench.options(model, allowed_tools=["Bash"])) as client:
        await client.query("go")
        await collect(client.receive_response())
        with anyio.fail_after(30):
            while not (bench.project / "begun").exists():
                await anyio.sleep(0.02)
            await client.interrupt()
            async for message in client.receive_messages():
                if isinstance(message, TaskNotificationMessage):
                    break
    assert message.status == "stopped"
