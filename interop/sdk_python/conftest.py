"""The public Agent SDK drives the real gimlet; only the model is scripted, and it is strict about what it is sent.

Every test gets a home, a project folder and a model of its own. A test that ends with a request which the script did
not expect, or which the provider would refuse, fails.
"""

import os

import pytest
from claude_agent_sdk import ClaudeAgentOptions
from scripted_model import BINARY, Model, blocks, call, text

__all__ = ["blocks", "call", "collect", "of", "only", "text"]


def pytest_configure(config):
    if not BINARY or not os.access(BINARY, os.X_OK):
        raise pytest.UsageError("GIMLET_BIN must name the gimlet to test; scripts/interop sets it")


@pytest.fixture
def anyio_backend():
    return "asyncio"


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
            # Most scripts are about requests that begin with the prompt.
            "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
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
