"""Many programs at once: nobody hears another's words, and nobody grows."""

import os

import anyio
import pytest
from claude_agent_sdk import ClaudeSDKClient

from conftest import collect

pytestmark = pytest.mark.anyio

CLIENTS = 20
TURNS = 50
# What one long session may take, with room for a debug build.
MAX_RSS_KB = 100_000


def rss_kb(client):
    pid = client._transport._process.pid
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


async def test_twenty_clients_with_fifty_turns_each(bench):
    echo = {"reply": {"blocks": [{"text": "heard: {{last_user_text}}"}]}, "repeat": "forever"}
    model = bench.model(echo)
    sizes = []

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
            assert len(sessions) == 1
            sizes.append(rss_kb(client))

    with anyio.fail_after(300):
        async with anyio.create_task_group() as group:
            for number in range(CLIENTS):
                group.start_soon(one, number)
    assert len(bench.transcripts()) == CLIENTS
    assert max(sizes) < MAX_RSS_KB, sizes
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
