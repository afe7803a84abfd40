"""The public Agent SDK drives the real gimlet; only the model is scripted, and it is strict about what it is sent.

Every test gets a home, a project folder and a model of its own. A test that ends with a request which the script did
not expect, or which the provider would refuse, fails.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from claude_agent_sdk import ClaudeAgentOptions

BINARY = os.environ.get("GIMLET_BIN")


def pytest_configure(config):
    if not BINARY or not os.access(BINARY, os.X_OK):
        raise pytest.UsageError("GIMLET_BIN must name the gimlet to test; scripts/interop sets it")


@pytest.fixture
def anyio_backend():
    return "asyncio"


def text(words, **usage):
    """A reply that only speaks."""
    reply = {"blocks": [{"text": words}]}
    if usage:
        reply["usage"] = usage
    return {"reply": reply}


def call(tool, tool_input, **more):
    """A reply that calls one tool."""
    return {"reply": {"blocks": [{"tool": tool, "input": tool_input, **more}]}}


def blocks(*parts):
    return {"reply": {"blocks": list(parts)}}


class Model:
    """A scripted model server, one per script."""

    def __init__(self, folder, steps, **script):
        folder.mkdir(parents=True)
        self.record = folder / "exchanges"
        file = folder / "script.json"
        file.write_text(json.dumps({"steps": steps, **script}))
        self.process = subprocess.Popen(
            [BINARY, "dev", "scripted-model", str(file), "--record", str(self.record)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.url = json.loads(line)["url"]

    def requests(self):
        """The bodies of all requests for messages, in order."""
        found = []
        for file in sorted(self.record.glob("*.request")):
            head, _, body = file.read_text().partition("\n\n")
            if head.startswith("POST /v1/messages HTTP"):
                found.append(json.loads(body))
        return found

    def close(self):
        self.process.stdin.close()
        failures = self.process.stderr.read()
        code = self.process.wait(timeout=20)
        assert code == 0, failures


class Bench:
    """What a test works with."""

    def __init__(self, root):
        self.home = root / "home"
        self.project = root / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.root = root
        self.models = []
        self.stderr = []

    def model(self, *steps, **script):
        model = Model(self.root / f"model{len(self.models)}", list(steps), **script)
        self.models.append(model)
        return model

    def options(self, scripted, /, **options):
        """Options for the SDK that lead to this bench's gimlet and model."""
        env = {
            "ANTHROPIC_BASE_URL": scripted.url,
            "ANTHROPIC_API_KEY": "test-key",
            "CLAUDE_CONFIG_DIR": str(self.home),
            "HOME": str(self.home),
            **options.pop("env", {}),
        }
        options.setdefault("cwd", str(self.project))
        options.setdefault("stderr", self.stderr.append)
        return ClaudeAgentOptions(cli_path=BINARY, env=env, **options)

    def transcripts(self):
        return sorted((self.home / "projects").glob("*/*.jsonl"))


@pytest.fixture
def bench(tmp_path, monkeypatch):
    # The SDK's own helpers look for sessions where the environment says.
    made = Bench(tmp_path.resolve())
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(made.home))
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "CLAUDE_CODE_", "GIMLET_")) and name != "GIMLET_BIN":
            monkeypatch.delenv(name)
    yield made
    for model in made.models:
        model.close()


async def collect(messages):
    return [message async for message in messages]


def of(messages, kind):
    return [message for message in messages if isinstance(message, kind)]


def only(items):
    assert len(items) == 1, items
    return items[0]
