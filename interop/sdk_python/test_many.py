"""Many programs at once: nobody hears another's words, and nobody grows."""

import os
from typing import NamedTuple

import anyio
import pytest
from claude_agent_sdk import ClaudeSDKClient

from conftest import collect

pytestmark = pytest.mark.anyio

CLIENTS = 20
TURNS = 50
# When a session has everything that it will ever need.
SETTLED = 10
# What a session may take of its own; pages of the binary are shared by all.
MAX_OWN_KB = 12_000
# What forty more turns may add: their words, in history and buffers.
MAX_GROWTH_KB = 1_500
# A connection that is kept open, or one that is just being closed.
MAX_MORE_FILES = 2


class Size(NamedTuple):
    """What a process holds."""

    own_kb: int
    files: int
    processes: int


def children(pid):
    """How many processes its threads have started that still run."""
    count = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/children") as started:
                count += len(started.read().split())
        except FileNotFoundError:
            pass  # The thread has just ended.
    return count


def size(client):
    pid = client._transport._process.pid
    with open(f"/proc/{pid}/status") as status:
        pages = dict(line.split(":", 1) for line in status)
    own_kb = int(pages["RssAnon"].split()[0])
    return Size(own_kb, len(os.listdir(f"/proc/{pid}/fd")), children(pid))


async def test_twenty_clients_with_fifty_turns_each(bench):
    echo = {"reply": {"blocks": [{"text": "heard: {{last_user_text}}"}]}, "repeat": "forever"}
    model = bench.model(echo)
    sizes = {}

    async def one(number):
        folder = bench.root / f"project{number}"
        folder.mkdir()
        async with ClaudeSDKClient(bench.options(model, cwd=str(folder))) as client:
            sessions = set()
            for turn in range(TURNS):
                words = f"client {number} turn {turn}."
                await client.query(words)
                result = (await collect(client.receive_response()))[-1]
                assert result.result.startswith("heard: ") and result.result.endswith(words), result.result
                sessions.add(result.session_id)
                if turn + 1 == SETTLED:
                    settled = size(client)
            assert len(sessions) == 1
            sizes[number] = (settled, size(client))

    with anyio.fail_after(300):
        async with anyio.create_task_group() as group:
            for number in range(CLIENTS):
                group.start_soon(one, number)
    assert len(bench.transcripts()) == CLIENTS
    for number, (settled, last) in sizes.items():
        assert last.own_kb < MAX_OWN_KB, (number, last)
        assert last.own_kb - settled.own_kb < MAX_GROWTH_KB, (number, settled, last)
        assert last.files - settled.files <= MAX_MORE_FILES, (number, settled, last)
        assert last.processes == settled.processes, (number, settled, last)
    left = [pid for pid in os.listdir("/proc") if pid.isdigit() and belongs(pid, bench.home)]
    assert left == [], "a client left a process behind"


def belongs(pid, home):
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            variables = environ.read()
        with open(f"/proc/{pid}/cmdline", "rb") as cmdline:
            command = cmdline.read()
    except OSError:
        return False
    return str(home).encode() in variables and b"scripted-model" not in command and int(pid) != os.getpid()
