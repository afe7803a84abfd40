"""The vendor's client library speaks with the scripted model: it must accept what comes and put the intended message
together. That keeps the model honest which gimlet is tested with.
"""

import json
import os
import subprocess

import anthropic
import pytest

BINARY = os.environ.get("GIMLET_BIN")
MODEL = "claude-sonnet-5-5"
TOOL = {"name": "Read", "description": "Reads a file.", "input_schema": {"type": "object"}}


@pytest.fixture
def client_of(tmp_path):
    """Starts a scripted model and gives a client of it; every request must have fitted its step."""
    processes = []

    def start(*steps, wire=None, **options):
        steps = [{**step, "wire": wire} if wire else step for step in steps]
        file = tmp_path / f"script-{len(processes)}.json"
        file.write_text(json.dumps({"steps": steps}))
        process = subprocess.Popen(
            [BINARY, "dev", "scripted-model", str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        url = json.loads(process.stdout.readline())["url"]
        return anthropic.Anthropic(base_url=url, api_key="any", **options)

    yield start
    for process in processes:
        process.stdin.close()
        assert process.wait(timeout=10) == 0, "a request fitted no step"


def ask(client, *messages, **more):
    with client.messages.stream(
        model=MODEL, max_tokens=1000, messages=list(messages) or [user("hi")], **more
    ) as stream:
        text = "".join(stream.text_stream)
        return text, stream.get_final_message()


def user(content):
    return {"role": "user", "content": content}


def reply(*blocks, **more):
    return {"reply": {"blocks": list(blocks), **more}}


WIRES = [
    None,
    {"chunk": "bytes:1"},
    {"newline": "crlf", "comments": True, "pings": "every:1"},
    {"encoding": "gzip", "split_data": True},
    {"usage": "several", "text_piece": 1},
]


@pytest.mark.parametrize("wire", WIRES)
def test_a_text_arrives_as_it_was_written(client_of, wire):
    client = client_of(reply({"thinking": "hm"}, {"text": "Grüße, 世界 🎉\n"}), wire=wire)
    text, message = ask(client)
    assert text == "Grüße, 世界 🎉\n"
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.content[0].thinking == "hm" and len(message.content[0].signature) == 4096
    assert message.stop_reason == "end_turn" and message.usage.output_tokens > 0


@pytest.mark.parametrize("wire", [None, {"input_pieces": "bytes:1"}, {"input_pieces": "empty"}])
def test_a_call_and_its_result_make_a_turn(client_of, wire):
    given = {"file_path": "a\"é.txt", "limit": 3, "deep": [{"x": None}]}
    client = client_of(
        reply({"thinking": "plan"}, {"tool": "Read", "input": given}),
        {"expect": {"tool_result_for": "Read"}, **reply({"text": "It says {{last_result}}."})},
        wire=wire,
    )
    _, first = ask(client, tools=[TOOL])
    call = first.content[-1]
    assert (first.stop_reason, call.type, call.name, call.input) == ("tool_use", "tool_use", "Read", given)
    result = user([{"type": "tool_result", "tool_use_id": call.id, "content": "alpha"}])
    # The library's own rendering of what it got must still be what was signed.
    spoken = {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]}
    text, _ = ask(client, user("hi"), spoken, result, tools=[TOOL])
    assert text == "It says alpha."


def test_an_error_has_the_class_and_the_words_of_the_service(client_of):
    client = client_of(
        {"reply": {"status": 400, "error": {"message": "messages: too odd"}}},
        {"reply": {"status": 429, "headers": {"retry-after": "3600"}}},
        max_retries=0,
    )
    with pytest.raises(anthropic.BadRequestError) as bad:
        ask(client)
    assert bad.value.body["error"] == {"type": "invalid_request_error", "message": "messages: too odd"}
    assert bad.value.request_id
    with pytest.raises(anthropic.RateLimitError):
        ask(client)


def test_an_error_in_the_middle_of_a_stream_is_one(client_of):
    fault = {"error_event": {"at": "mid_text", "type": "overloaded_error", "message": "busy"}}
    client = client_of(reply({"text": "half of it"}, faults=[fault]))
    with pytest.raises(anthropic.APIStatusError, match="busy"):
        ask(client)


def test_a_retry_goes_through(client_of):
    busy = {"reply": {"status": 529, "times": 2, "headers": {"retry-after-ms": "5"}}}
    text, _ = ask(client_of(busy, reply({"text": "at last"}), max_retries=2))
    assert text == "at last"


def test_rules_of_the_service_hold(client_of):
    client = client_of(reply({"text": "fine"}), max_retries=0)
    for wrong in ([user("")], [user("a"), {"role": "assistant", "content": "prefill"}]):
        with pytest.raises(anthropic.BadRequestError):
            ask(client, *wrong)
    assert client.messages.count_tokens(model=MODEL, messages=[user("four")]).input_tokens > 0
    assert MODEL in [model.id for model in client.models.list()]
    assert ask(client)[0] == "fine"
