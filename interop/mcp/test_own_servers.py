"""Servers of our own, one with each official library: questions, progress, changes, and calls that go wrong."""

import os
import signal
import subprocess
import time

import pytest
from conftest import MODULES, OWN_SERVERS, PYTHON, blocks, text, tool_call

PYTHON_SERVER = {"command": str(PYTHON / "python"), "args": [str(OWN_SERVERS / "own_server.py")]}
# Modules are looked for beside the file that wants them, where scripts/interop puts it.
NODE_SERVER = {"command": "node", "args": [str(MODULES.parent / "own_server.mjs")]}
BOTH = pytest.mark.parametrize("entry", [PYTHON_SERVER, NODE_SERVER], ids=["python", "node"])


@BOTH
@pytest.mark.smoke
def test_calls_resources_and_prompts(bench, entry):
    run = bench.run(
        {"own": entry},
        blocks(
            tool_call("own", "count", {"steps": 5}),
            tool_call("own", "big", {"words": 40_000}),
            {"tool": "ReadMcpResourceTool", "input": {"server": "own", "uri": "own://readme"}},
        ),
        text("done"),
        text("done"),
        prompt="about @own:own://readme",
    )
    assert "read me first" in run.prompt()
    counted, big, resource = run.texts()
    assert counted == "counted to 5"
    assert "tool-results" in big and len(big) < 20_000, "a long answer goes to a file"
    assert resource == "read me first"
    prompted = bench.run({"own": entry}, text("done"), prompt='/mcp__own__review "a file.rs" very stern')
    assert "Review a file.rs in a very stern tone." in prompted.prompt()


@BOTH
def test_questions_reach_the_driving_program_and_defaults_fill_the_answer(bench, entry):
    steps = [blocks(tool_call("own", "book", {})), text("done")]
    accepted = bench.drive(
        {"own": entry}, *steps, answer=lambda _: {"action": "accept", "content": {"day": "friday"}}
    )
    assert "friday" in accepted.texts()[0] and "2" in accepted.texts()[0], accepted.texts()
    declined = bench.drive({"own": entry}, *steps, answer=lambda _: {"action": "decline"})
    assert "decline" in declined.texts()[0], declined.texts()


def test_a_page_to_open_is_a_question_too(bench):
    asked = []

    def answer(request):
        asked.append(request)
        return {"action": "accept"}

    steps = [blocks(tool_call("own", "visit", {})), text("done")]
    run = bench.drive({"own": PYTHON_SERVER}, *steps, answer=answer)
    assert (asked[0]["mode"], asked[0]["url"]) == ("url", "https://example.com/sign-in")
    assert run.texts() == ["the user chose accept"]


@BOTH
def test_a_tool_that_came_later_is_there_in_the_next_turn(bench, entry):
    run = bench.drive(
        {"own": entry},
        blocks(tool_call("own", "grow", {"name": "late"})),
        text("done"),
        blocks(tool_call("own", "late", {})),
        text("done"),
        prompts=("go", "again"),
    )
    assert run.texts(1) == ["added"]
    assert run.texts(3) == ["this is late"]
    inits = [line["tools"] for line in run.lines if line.get("subtype") == "init"]
    assert ["mcp__own__late" in tools for tools in inits] == [False, True]


@BOTH
def test_a_call_that_takes_too_long_is_withdrawn(bench, entry):
    note = bench.root / "note"
    run = bench.call({"own": {**entry, "timeout": 1500}}, tool_call("own", "slow", {"note": str(note)}))
    assert "did not answer within 1 s" in run.texts()[0], run.texts()
    assert note.read_text() == "withdrawn"


@BOTH
def test_a_server_that_ends_in_a_call_fails_that_call_alone(bench, entry):
    run = bench.run(
        {"own": entry, "other": PYTHON_SERVER},
        blocks(tool_call("own", "die", {}), tool_call("other", "count", {"steps": 1})),
        text("done"),
    )
    died, counted = run.texts()
    assert "exited with 7" in died and "no more memory" in died, died
    assert counted == "counted to 1"


def test_content_with_a_structure_is_kept_whole(bench):
    run = bench.call({"own": NODE_SERVER}, tool_call("own", "typed", {}))
    assert "the sum is 3" in run.texts()[0]
    results = [line for line in run.lines if line["type"] == "user" and "tool_use_result" in line]
    assert results[0]["tool_use_result"]["structuredContent"] == {"sum": 3, "of": [1, 2]}, results


@BOTH
def test_no_process_is_left_after_kill_9(bench, entry):
    note = bench.root / "note"
    model = bench.model(blocks(tool_call("own", "slow", {"note": str(note)})))
    program = subprocess.Popen(
        [*bench.command({"own": entry}), "--", "go"],
        env=bench.env(model.url),
        cwd=bench.project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    for line in program.stdout:
        if '"tool_use"' in line:
            break
    started = servers_in(bench.project)
    assert started
    program.send_signal(signal.SIGKILL)
    program.wait()
    for _ in range(300):
        left = servers_in(bench.project)
        if not left:
            return
        time.sleep(0.1)
    raise AssertionError(f"still there: {left}")


def servers_in(folder):
    """The processes that work in a folder, without those of gimlet itself."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = open(f"/proc/{pid}/cmdline").read()
            if os.readlink(f"/proc/{pid}/cwd") == str(folder) and "own_server" in command and "--mcp-config" not in command:
                found.append(pid)
        except OSError:
            continue
    return found
