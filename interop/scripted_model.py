"""The scripted model as a server of its own, for tests that start gimlet as others do."""

import json
import os
import subprocess

BINARY = os.environ.get("GIMLET_BIN")


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
