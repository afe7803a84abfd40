"""One-shot queries: what a program gets back, and when it is an error."""

import json
from pathlib import Path

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    CLIConnectionError,
    ProcessError,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    query,
)

from conftest import blocks, call, collect, of, only, text

pytestmark = pytest.mark.anyio


async def test_a_plain_question_gives_init_answer_and_result(bench):
    model = bench.model(text("Four."))
    messages = await collect(query(prompt="2+2?", options=bench.options(model)))
    assert isinstance(messages[0], SystemMessage) and messages[0].subtype == "init", "init comes first"
    init = messages[0].data
    assert init["cwd"] == str(bench.project)
    assert "Bash" in init["tools"] and "Read" in init["tools"]
    assert init["permissionMode"] == "default"
    assert init["claude_code_version"].count(".") == 2
    answer = only(of(messages, AssistantMessage))
    assert answer.content == [TextBlock(text="Four.")]
    result = messages[-1]
    assert isinstance(result, ResultMessage)
    assert (result.subtype, result.is_error, result.result, result.num_turns) == ("success", False, "Four.", 1)
    assert result.session_id == init["session_id"]
    assert result.usage["output_tokens"] > 0 and result.total_cost_usd > 0
    assert result.permission_denials == []
    assert bench.stderr == [], "a clean run says nothing on stderr"
    sent = only(model.requests())
    assert "system" not in sent or not sent["system"], "no system prompt was asked for"


async def test_the_preset_system_prompt_and_what_is_added_to_it_are_sent(bench):
    model = bench.model(text("ok"))
    preset = {"type": "preset", "preset": "claude_code", "append": "Speak like a pirate."}
    await collect(query(prompt="hi", options=bench.options(model, system_prompt=preset)))
    system = json.dumps(only(model.requests())["system"])
    assert "Speak like a pirate." in system and len(system) > 500


async def test_a_tool_call_shows_its_use_and_its_result(bench):
    (bench.project / "a.txt").write_text("the secret is 17\n")
    model = bench.model(call("Read", {"file_path": str(bench.project / "a.txt")}), text("17"))
    messages = await collect(query(prompt="what is in a.txt?", options=bench.options(model)))
    use = only([b for m in of(messages, AssistantMessage) for b in m.content if isinstance(b, ToolUseBlock)])
    assert use.name == "Read"
    answer = only(of(messages, UserMessage))
    result = only(answer.content)
    assert isinstance(result, ToolResultBlock) and result.tool_use_id == use.id
    assert "the secret is 17" in str(result.content) and not result.is_error
    assert answer.tool_use_result["file"]["filePath"] == str(bench.project / "a.txt")
    assert messages[-1].num_turns == 2


async def test_partial_messages_come_only_when_asked_for(bench):
    script = blocks({"thinking": "let me see"}, {"text": "Hello there, friend."})
    model = bench.model(script, script)
    quiet = await collect(query(prompt="hi", options=bench.options(model)))
    assert not of(quiet, StreamEvent)
    loud = await collect(
        query(prompt="hi", options=bench.options(model, include_partial_messages=True, thinking={"type": "adaptive"}))
    )
    kinds = [m.event["type"] for m in of(loud, StreamEvent)]
    for kind in ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_stop"]:
        assert kind in kinds, kinds
    deltas = [m.event["delta"] for m in of(loud, StreamEvent) if m.event["type"] == "content_block_delta"]
    assert "".join(d["text"] for d in deltas if d["type"] == "text_delta") == "Hello there, friend."
    assert any(d["type"] == "thinking_delta" and d["thinking"] for d in deltas)
    thinking = [b for m in of(loud, AssistantMessage) for b in m.content if isinstance(b, ThinkingBlock)]
    assert only(thinking).thinking == "let me see"


async def test_streaming_input_runs_every_prompt(bench):
    model = bench.model(text("one"), text("two"))

    async def prompts():
        for words in ["first", "second"]:
            yield {"type": "user", "message": {"role": "user", "content": words}, "parent_tool_use_id": None}

    messages = await collect(query(prompt=prompts(), options=bench.options(model)))
    results = of(messages, ResultMessage)
    assert [r.result for r in results][-1] == "two"
    sent = model.requests()[-1]["messages"]
    said = json.dumps(sent)
    assert "first" in said and "second" in said


async def test_without_a_credential_the_session_starts_and_says_what_to_do(bench):
    model = bench.model()
    messages = []
    with pytest.raises(Exception) as caught:
        async for message in query(prompt="hi", options=bench.options(model, env={"ANTHROPIC_API_KEY": ""})):
            messages.append(message)
    said, result = only(of(messages, AssistantMessage)), messages[-1]
    assert (said.error, result.is_error) == ("authentication_failed", True)
    assert result.result == "Not logged in · Please run /login" and result.result in str(caught.value)
    assert model.requests() == []


async def test_a_failing_provider_is_an_error_with_its_reason(bench):
    model = bench.model({"reply": {"status": 400, "error": {"type": "invalid_request_error", "message": "no such thing"}}})
    messages = []
    with pytest.raises(Exception) as caught:
        async for message in query(prompt="hi", options=bench.options(model)):
            messages.append(message)
    result = only(of(messages, ResultMessage))
    assert result.is_error and "no such thing" in result.result
    assert "no such thing" in str(caught.value) or isinstance(caught.value, ProcessError)


async def test_turn_limit_and_budget_end_with_their_own_subtype(bench):
    listing = call("Bash", {"command": "ls"})
    model = bench.model(listing, text("never"), text("dear"))
    messages = []
    with pytest.raises(Exception):
        async for message in query(prompt="loop", options=bench.options(model, max_turns=1)):
            messages.append(message)
    result = only(of(messages, ResultMessage))
    assert result.subtype == "error_max_turns" and result.is_error and result.num_turns == 2
    model2 = bench.model(text("dear", input_tokens=1_000_000, output_tokens=100_000))
    messages = []
    with pytest.raises(Exception):
        async for message in query(prompt="spend", options=bench.options(model2, max_budget_usd=0.0001)):
            messages.append(message)
    result = only(of(messages, ResultMessage))
    assert result.subtype == "error_max_budget_usd" and result.is_error
    # The script of the first model has two replies that must not have been asked for.
    bench.models.remove(model)
    assert len(model.requests()) == 1
    model.process.kill()
    model.process.wait()


async def test_large_prompts_results_and_lines_pass_whole(bench):
    (bench.project / "big.txt").write_text("x" * 400_000 + "\n")
    model = bench.model(
        call("Bash", {"command": "head -c 300000 big.txt"}),
        blocks({"text": "A" * 1000, "times": 700}),
    )
    prompt = "Count: " + "é" * 300_000
    messages = await collect(query(prompt=prompt, options=bench.options(model)))
    assert len(messages[-1].result) == 700_000
    assert "é" * 300_000 in json.dumps(model.requests()[0]["messages"], ensure_ascii=False)
    result = only(only(of(messages, UserMessage)).content)
    assert len(str(result.content)) < 60_000, "a huge result is a preview with a file"


async def test_the_stderr_callback_hears_warnings(bench):
    (bench.home / "settings.json").write_text('{"permissions": {"allow": ["Read(",]}}')
    model = bench.model(text("ok"))
    await collect(query(prompt="hi", options=bench.options(model)))
    assert any("settings.json" in line for line in bench.stderr), bench.stderr


async def test_a_session_that_cannot_start_says_why(bench):
    model = bench.model()
    missing = "3f0c0000-0000-4000-8000-000000000000"
    with pytest.raises(Exception) as caught:
        await collect(query(prompt="hi", options=bench.options(model, resume=missing)))
    assert "No conversation found" in str(caught.value), caught.value


async def test_an_unknown_program_path_is_the_sdks_own_error(bench):
    model = bench.model()
    options = bench.options(model)
    options.cli_path = str(Path(bench.root) / "no-such-program")
    with pytest.raises(CLIConnectionError):
        await collect(query(prompt="hi", options=options))


async def test_prompts_with_ids_of_their_own_are_answered_and_nothing_odd_comes_with_them(bench):
    model = bench.model(text("one"), text("two"))

    async def prompts():
        for number, words in enumerate(["first", "second"]):
            uuid = f"11111111-2222-4333-8444-55555555555{number}"
            message = {"role": "user", "content": words}
            yield {"type": "user", "message": message, "uuid": uuid, "priority": "later", "session_id": ""}

    messages = await collect(query(prompt=prompts(), options=bench.options(model)))
    assert [m.result for m in of(messages, ResultMessage)] == ["one", "two"]
    init = messages[0].data
    assert "msg_lifecycle_v1" in init["capabilities"]
    assert {type(m).__name__ for m in messages} == {"SystemMessage", "AssistantMessage", "ResultMessage"}
