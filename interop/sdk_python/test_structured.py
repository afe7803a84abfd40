"""Answers in a shape that the program asked for."""

import pytest
from claude_agent_sdk import query

from conftest import call, collect, of, only, text

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "properties": {"sum": {"type": "integer"}},
    "required": ["sum"],
    "additionalProperties": False,
}


async def ask(bench, model, **options):
    wanted = {"type": "json_schema", "schema": SCHEMA}
    messages = []
    try:
        async for message in query(prompt="2+2", options=bench.options(model, output_format=wanted, **options)):
            messages.append(message)
    except Exception as error:  # the SDK raises after an error result
        return messages, error
    return messages, None


async def test_a_valid_answer_is_the_result(bench):
    model = bench.model(call("StructuredOutput", {"sum": 4}))
    messages, error = await ask(bench, model)
    assert error is None and messages[-1].structured_output == {"sum": 4}
    offered = only([t for t in only(model.requests())["tools"] if t["name"] == "StructuredOutput"])
    assert offered["input_schema"]["properties"] == SCHEMA["properties"]


async def test_a_wrong_answer_is_told_what_is_wrong_and_tried_again(bench):
    model = bench.model(
        call("StructuredOutput", {"sum": "four"}), text("four"), call("StructuredOutput", {"sum": 4})
    )
    messages, error = await ask(bench, model)
    assert error is None and messages[-1].structured_output == {"sum": 4}


async def test_too_many_wrong_answers_end_with_their_own_subtype(bench):
    model = bench.model({**call("StructuredOutput", {"sum": "x"}), "repeat": 2})
    messages, error = await ask(bench, model, env={"MAX_STRUCTURED_OUTPUT_RETRIES": "2"})
    assert error is not None
    assert messages[-1].subtype == "error_max_structured_output_retries" and messages[-1].is_error
