"""npm server-everything: every part of the protocol, over each transport."""

import socket
import subprocess
import time

import pytest
from conftest import blocks, node_server, text, tool_call

STDIO = {"all": node_server("everything", "stdio")}


@pytest.mark.smoke
def test_tools_resources_and_prompts_over_pipes(bench):
    run = bench.run(
        STDIO,
        blocks(
            tool_call("all", "echo", {"message": "hello"}),
            tool_call("all", "get-sum", {"a": 2, "b": 3}),
            tool_call("all", "get-tiny-image", {}),
            tool_call("all", "get-structured-content", {"location": "Chicago"}),
            tool_call("all", "get-roots-list", {}),
            {"tool": "ListMcpResourcesTool", "input": {"server": "all"}},
            {"tool": "ReadMcpResourceTool", "input": {"server": "all", "uri": "demo://resource/dynamic/blob/7"}},
        ),
        text("done"),
        prompt="see @all:demo://resource/dynamic/text/3",
    )
    assert run.status("all") == "connected"
    assert "Resource 3" in run.prompt(), run.prompt()
    echo, total, image, structured, roots, resources, blob = run.results()
    assert echo == "Echo: hello"
    assert "5" in total
    assert any(part["type"] == "image" and part["source"]["media_type"] == "image/png" for part in image), image
    assert "temperature" in str(structured)
    assert bench.project.as_uri() in str(roots), roots
    assert "demo://resource/static/document/features.md" in str(resources)
    assert "demo://resource/dynamic/text/{resourceId}" in str(resources), "templates of addresses are listed"
    assert "bytes are in" in str(blob) or "Resource 7" in str(blob), blob


def test_links_references_and_annotations(bench):
    run = bench.call(
        STDIO,
        tool_call("all", "get-resource-links", {"count": 2}),
        tool_call("all", "get-resource-reference", {"resourceType": "Blob", "resourceId": 2}),
        tool_call("all", "get-annotated-message", {"messageType": "error", "includeImage": True}),
        tool_call("all", "get-sum", {"a": "two", "b": 3}),
    )
    links, blob, annotated, wrong = run.results()
    assert "demo://resource/dynamic/blob/1" in str(links) or "demo://resource/dynamic/text/1" in str(links), links
    assert "demo://resource/dynamic/blob/2" in str(blob), blob
    assert any(part["type"] == "image" for part in annotated), annotated
    assert "InputValidationError" in str(wrong) or "expected number" in str(wrong), wrong


def test_progress_and_a_question_that_nobody_answers(bench):
    run = bench.call(
        STDIO,
        tool_call("all", "trigger-long-running-operation", {"duration": 1, "steps": 4}),
        tool_call("all", "trigger-elicitation-request", {}),
    )
    slow, asked = run.texts()
    assert "completed" in slow.lower(), slow
    assert "declined" in asked.lower(), asked


def test_a_question_is_answered_by_the_driving_program(bench):
    questions = []

    def answer(request):
        questions.append(request)
        assert request["subtype"] == "elicitation", request
        return {"action": "accept", "content": {"name": "Ada", "check": True}}

    steps = [blocks(tool_call("all", "trigger-elicitation-request", {})), text("done")]
    run = bench.drive(STDIO, *steps, answer=answer)
    assert questions[0]["mcp_server_name"] == "all"
    assert "name" in questions[0]["requested_schema"]["properties"]
    assert "Ada" in run.texts()[0], run.texts()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("/mcp__all__simple-prompt", "simple prompt"),
        ("/mcp__all__args-prompt Paris France", "Paris, France"),
        ("/mcp__all__resource-prompt Text 2", "Resource 2"),
    ],
)
def test_prompts_are_commands(bench, typed, said):
    run = bench.run(STDIO, text("done"), prompt=typed)
    assert said in run.prompt(), run.prompt()
    assert "mcp__all__args-prompt" in run.init["slash_commands"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.parametrize(("mode", "kind", "path"), [("streamableHttp", "http", "/mcp"), ("sse", "sse", "/sse")])
@pytest.mark.smoke
def test_the_same_over_the_network(bench, mode, kind, path):
    port = free_port()
    entry = node_server("everything", mode)
    server = subprocess.Popen(
        [entry["command"], *entry["args"]],
        env=bench.env("", {"PORT": str(port)}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_port(port)
        servers = {"web": {"type": kind, "url": f"http://127.0.0.1:{port}{path}"}}
        run = bench.run(
            servers,
            blocks(
                tool_call("web", "echo", {"message": "far"}),
                tool_call("web", "trigger-long-running-operation", {"duration": 1, "steps": 2}),
                tool_call("web", "get-roots-list", {}),
                {"tool": "ReadMcpResourceTool", "input": {"server": "web", "uri": "demo://resource/dynamic/text/4"}},
            ),
            text("done"),
        )
        echo, slow, roots, resource = run.texts()
        assert echo == "Echo: far"
        assert "completed" in slow.lower()
        assert bench.project.as_uri() in roots, roots
        assert "Resource 4" in resource
    finally:
        server.kill()
        server.wait()


def wait_for_port(port):
    for _ in range(300):
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the server does not listen")
