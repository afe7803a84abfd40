"""A client that stays: several turns, interrupts, changes of mode and model, usage."""

import json

import anyio
import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeSDKClient,
    ConversationResetMessage,
    ResultMessage,
    SystemMessage,
    ToolUseBlock,
    UserMessage,
)

from conftest import blocks, call, collect, of, only, text

pytestmark = pytest.mark.anyio


async def turn(client, prompt):
    await client.query(prompt)
    return await collect(client.receive_response())


async def test_several_turns_are_one_conversation(bench):
    model = bench.model(text("hello"), text("you said one"))
    async with ClaudeSDKClient(bench.options(model, max_turns=1)) as client:
        first = await turn(client, "one")
        second = await turn(client, "two")
    assert [first[-1].result, second[-1].result] == ["hello", "you said one"]
    assert first[-1].session_id == second[-1].session_id
    for messages in (first, second):
        assert isinstance(messages[0], SystemMessage) and messages[0].subtype == "init"
    said = [m["role"] for m in model.requests()[1]["messages"]]
    assert said == ["user", "assistant", "user"]
    assert len(bench.transcripts()) == 1


async def test_get_server_info_answers_before_any_prompt(bench):
    model = bench.model()
    async with ClaudeSDKClient(bench.options(model)) as client:
        info = await client.get_server_info()
    assert isinstance(info["commands"], list) and info["output_style"] == "default"
    assert info["models"]


async def test_interrupt_stops_a_running_command_and_the_client_lives_on(bench):
    model = bench.model(call("Bash", {"command": "touch started; sleep 600"}), text("back again"))
    options = bench.options(model, allowed_tools=["Bash"])
    async with ClaudeSDKClient(options) as client:
        await client.query("sleep")
        with anyio.fail_after(30):
            while not (bench.project / "started").exists():
                await anyio.sleep(0.02)
            await client.interrupt()
            messages = await collect(client.receive_response())
            assert messages[-1].subtype == "error_during_execution" and messages[-1].is_error
            again = await turn(client, "hello?")
    assert again[-1].result == "back again"
    last = json.dumps(model.requests()[1]["messages"])
    assert "interrupted" in last.lower()


async def test_interrupt_while_the_model_speaks(bench):
    slow = {**blocks({"text": "word "}, {"text": "more"}), "wire": {"chunk": "event"}}
    slow["reply"]["faults"] = [{"stall": {"at": "mid_text"}}]
    model = bench.model(slow, text("fine"))
    async with ClaudeSDKClient(bench.options(model, include_partial_messages=True)) as client:
        await client.query("speak")
        with anyio.fail_after(30):
            seen = []
            async for message in client.receive_response():
                seen.append(message)
                if type(message).__name__ == "StreamEvent" and message.event["type"] == "content_block_start":
                    await client.interrupt()
            assert seen[-1].subtype == "error_during_execution"
            again = await turn(client, "go on")
    assert again[-1].result == "fine"


async def test_interrupt_with_nothing_running_is_fine(bench):
    model = bench.model(text("ok"))
    async with ClaudeSDKClient(bench.options(model)) as client:
        await client.interrupt()
        assert (await turn(client, "hi"))[-1].result == "ok"


async def test_the_mode_can_be_changed_between_turns(bench):
    write = lambda name: call("Write", {"file_path": str(bench.project / name), "content": "x"})
    model = bench.model(write("a"), text("refused"), write("b"), text("done"))
    async with ClaudeSDKClient(bench.options(model)) as client:
        first = await turn(client, "write a")
        await client.set_permission_mode("acceptEdits")
        second = await turn(client, "write b")
        assert second[0].data["permissionMode"] == "acceptEdits"
        with pytest.raises(Exception):
            await client.set_permission_mode("bypassPermissions")
    assert len(first[-1].permission_denials) == 1 and not (bench.project / "a").exists()
    assert second[-1].permission_denials == [] and (bench.project / "b").exists()


WAITS = "touch started; until [ -e go ]; do sleep 0.02; done"


async def until(condition):
    while not condition():
        await anyio.sleep(0.02)


async def test_the_mode_can_be_changed_while_a_turn_runs(bench):
    write = lambda name: call("Write", {"file_path": str(bench.project / name), "content": "x"})
    model = bench.model(write("a"), call("Bash", {"command": WAITS}), write("b"), text("done"))
    changed = False
    async with ClaudeSDKClient(bench.options(model, allowed_tools=["Bash"])) as client:
        await client.query("go")
        seen = []
        with anyio.fail_after(30):
            async for message in client.receive_response():
                seen.append(message)
                calls = [b.name for b in getattr(message, "content", []) if isinstance(b, ToolUseBlock)]
                if calls == ["Bash"]:
                    await until((bench.project / "started").exists)
                    await client.set_permission_mode("acceptEdits")
                    changed = True
                    (bench.project / "go").write_text("")
    assert changed and len(of(seen, ResultMessage)) == 1 and seen[-1].result == "done"
    # One turn: what it asked for before the change was refused, what it asked for afterwards was not.
    assert [d["tool_input"]["file_path"] for d in seen[-1].permission_denials] == [str(bench.project / "a")]
    assert not (bench.project / "a").exists() and (bench.project / "b").exists()


async def test_the_model_can_be_changed_and_changed_back(bench):
    model = bench.model(text("1"), text("2"), text("3"))
    async with ClaudeSDKClient(bench.options(model, model="claude-sonnet-4-5")) as client:
        await turn(client, "one")
        await client.set_model("claude-haiku-4-5")
        second = await turn(client, "two")
        await client.set_model(None)
        await turn(client, "three")
    used = [request["model"] for request in model.requests()]
    assert used[0] == used[2] != used[1] and "haiku" in used[1]
    assert "haiku" in second[0].data["model"]


async def test_context_usage_has_its_categories(bench):
    model = bench.model(text("hello", input_tokens=5000, output_tokens=10))
    async with ClaudeSDKClient(bench.options(model)) as client:
        await turn(client, "hi")
        usage = await client.get_context_usage()
    assert usage["totalTokens"] > 0 and usage["maxTokens"] >= usage["totalTokens"]
    assert {"name", "tokens"} <= set(usage["categories"][0])


async def test_a_prompt_during_a_turn_joins_it(bench):
    model = bench.model(call("Bash", {"command": WAITS}), text("both"))
    joined_while_it_ran = False
    async with ClaudeSDKClient(bench.options(model, allowed_tools=["Bash"])) as client:
        await client.query("first")
        seen = []
        with anyio.fail_after(30):
            async for message in client.receive_response():
                seen.append(message)
                if any(isinstance(block, ToolUseBlock) for block in getattr(message, "content", [])):
                    await until((bench.project / "started").exists)
                    await client.query("second")
                    # Lines are read in their order: once this is answered, the prompt is there too.
                    await client.get_mcp_status()
                    joined_while_it_ran = not (bench.project / "go").exists()
                    (bench.project / "go").write_text("")
    assert joined_while_it_ran
    assert len(of(seen, ResultMessage)) == 1 and seen[-1].result == "both"
    first, joined = model.requests()
    assert "second" not in json.dumps(first["messages"])
    last = joined["messages"][-1]["content"]
    assert last[0]["type"] == "tool_result" and "second" in json.dumps(last[1:])


async def test_clear_begins_a_new_session(bench):
    model = bench.model(text("one"), text("two"))
    async with ClaudeSDKClient(bench.options(model)) as client:
        first = await turn(client, "remember me")
        await client.query("/clear")
        cleared = await collect(client.receive_response())
        second = await turn(client, "who am I?")
    reset = only(of(cleared, ConversationResetMessage))
    assert reset.new_conversation_id == second[-1].session_id != first[-1].session_id
    assert "remember me" not in json.dumps(model.requests()[1])
    assert len(bench.transcripts()) == 2


async def test_files_go_back_to_what_they_were(bench):
    file = bench.project / "a.txt"
    file.write_text("before\n")
    model = bench.model(
        call("Read", {"file_path": str(file)}),
        call("Write", {"file_path": str(file), "content": "after\n"}),
        call("Write", {"file_path": str(bench.project / "new.txt"), "content": "new\n"}),
        text("done"),
    )
    options = bench.options(
        model,
        permission_mode="acceptEdits",
        enable_file_checkpointing=True,
        extra_args={"replay-user-messages": None},
    )
    async with ClaudeSDKClient(options) as client:
        messages = await turn(client, "change it")
        prompt = only([m for m in of(messages, UserMessage) if m.content == "change it"])
        assert file.read_text() == "after\n" and (bench.project / "new.txt").exists()
        await client.rewind_files(prompt.uuid)
        assert file.read_text() == "before\n" and not (bench.project / "new.txt").exists()
        with pytest.raises(Exception) as caught:
            await client.rewind_files("3f0c0000-0000-4000-8000-000000000000")
    assert "No file checkpoint found" in str(caught.value)
