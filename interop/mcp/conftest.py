"""Public MCP servers, started by the real gimlet; only the model is scripted.

Every test gets a home, a project folder and a model of its own. What a server answered is read from what gimlet sent to
the model.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from scripted_model import BINARY, Model, blocks, text

MODULES = Path(os.environ.get("MCP_NODE_MODULES", ""))
PYTHON = Path(os.environ.get("MCP_PYTHON_BIN", ""))
OWN_SERVERS = Path(__file__).parent / "servers"


def pytest_configure(config):
    if not BINARY or not os.access(BINARY, os.X_OK):
        raise pytest.UsageError("GIMLET_BIN must name the gimlet to test; scripts/interop sets it")


def node_server(name, *arguments, **more):
    """The entry of a server from npm."""
    program = MODULES / ".bin" / f"mcp-server-{name}"
    return {"command": str(program), "args": [str(argument) for argument in arguments], **more}


def python_server(name, *arguments, **more):
    """The entry of a server from PyPI."""
    return {"command": str(PYTHON / f"mcp-server-{name}"), "args": [str(one) for one in arguments], **more}


def tool_call(server, tool, tool_input):
    return {"tool": f"mcp__{server}__{tool}", "input": tool_input}


class Run:
    """A finished run of gimlet."""

    def __init__(self, code, lines, errors, model):
        self.code = code
        self.lines = lines
        self.errors = errors
        self.model = model
        self.init = next((line for line in lines if line.get("subtype") == "init"), None)

    def status(self, server):
        """How a server stood when the session began."""
        found = [one for one in self.init["mcp_servers"] if one["name"] == server]
        assert found, self.init["mcp_servers"]
        return found[0]["status"]

    def tools(self, server):
        prefix = f"mcp__{server}__"
        return [tool.removeprefix(prefix) for tool in self.init["tools"] if tool.startswith(prefix)]

    def results(self, request=1):
        """The results of calls that a request sent to the model, as they were sent."""
        message = self.model.requests()[request]["messages"][-1]
        return [block["content"] for block in message["content"] if block["type"] == "tool_result"]

    def texts(self, request=1):
        """The same as texts."""
        return [result if isinstance(result, str) else text_of(result) for result in self.results(request)]

    def prompt(self, request=0):
        """Everything that the last message of a request says."""
        content = self.model.requests()[request]["messages"][-1]["content"]
        return content if isinstance(content, str) else text_of(content)

    @property
    def result(self):
        return self.lines[-1]


def text_of(content):
    return "\n".join(block["text"] for block in content if block["type"] == "text")


class Bench:
    """What a test works with."""

    def __init__(self, root):
        self.home = root / "home"
        self.project = root / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.root = root
        self.models = []

    def env(self, model_url, more=None):
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.home / ".claude"),
            "ANTHROPIC_BASE_URL": model_url,
            "ANTHROPIC_API_KEY": "test-key",
            "NO_PROXY": "127.0.0.1,localhost",
            # A loaded machine takes longer to start a server than a person wants to wait.
            "MCP_CONNECT_TIMEOUT_MS": "30000",
            **(more or {}),
        }

    def model(self, *steps):
        model = Model(self.root / f"model{len(self.models)}", list(steps))
        self.models.append(model)
        return model

    def command(self, servers, *flags):
        config = json.dumps({"mcpServers": servers})
        output = ["--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"]
        return [BINARY, "-p", *output, "--strict-mcp-config", "--mcp-config", config, *flags]

    def run(self, servers, *steps, prompt="go", flags=(), env=None):
        """Runs one prompt in print mode."""
        model = self.model(*steps)
        done = subprocess.run(
            [*self.command(servers, *flags), "--", prompt],
            env=self.env(model.url, env),
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert done.returncode == 0, (done.stdout[-2000:], done.stderr)
        return Run(done.returncode, lines, done.stderr, model)

    def call(self, servers, *calls, **more):
        """Runs calls in one reply and returns what came of them."""
        return self.run(servers, blocks(*calls), text("done"), **more)

    def drive(self, servers, *steps, answer=None, prompts=("go",), env=None):
        """Runs prompts in one session, as a driving program does, and answers what it is asked."""
        model = self.model(*steps)
        program = subprocess.Popen(
            [*self.command(servers), "--input-format", "stream-json"],
            env=self.env(model.url, env),
            cwd=self.project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

        def send(message):
            program.stdin.write(json.dumps(message) + "\n")
            program.stdin.flush()

        send({"type": "control_request", "request_id": "1", "request": {"subtype": "initialize"}})
        waiting = [{"type": "user", "message": {"role": "user", "content": prompt}} for prompt in prompts]
        send(waiting.pop(0))
        lines = []
        for line in program.stdout:
            line = json.loads(line)
            lines.append(line)
            if line["type"] == "control_request":
                response = {"subtype": "success", "request_id": line["request_id"], "response": answer(line["request"])}
                send({"type": "control_response", "response": response})
            if line["type"] == "result" and waiting:
                send(waiting.pop(0))
            elif line["type"] == "result":
                program.stdin.close()
        errors = program.stderr.read()
        code = program.wait(timeout=60)
        assert code == 0, errors
        return Run(code, lines, errors, model)


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path.resolve())
    yield made
    for model in made.models:
        model.close()
