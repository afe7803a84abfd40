"""The client that the conformance suite tests: the real gimlet with a scripted model.

It is started with the address of the suite's server; MCP_CONFORMANCE_SCENARIO says what the scenario is about.
"""

import os
import sys
import tempfile
from pathlib import Path

from conftest import Bench, blocks, text, tool_call

# The calls that a scenario wants to see.
CALLS = {
    "tools_call": [("add_numbers", {"a": 5, "b": 3})],
    "elicitation-sep1034-client-defaults": [("test_client_elicitation_defaults", {})],
    "sse-retry": [("test_reconnection", {})],
}


def main():
    scenario, url = os.environ["MCP_CONFORMANCE_SCENARIO"], sys.argv[-1]
    servers = {"suite": {"type": "http", "url": url}}
    calls = [tool_call("suite", tool, given) for tool, given in CALLS.get(scenario, [])]
    steps = [blocks(*calls), text("done")] if calls else [text("done")]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder).resolve())
        # Whatever a form leaves open has a default.
        run = bench.drive(servers, *steps, answer=lambda _: {"action": "accept", "content": {}})
        print(run.status("suite"), run.texts() if calls else "", run.errors)
        for model in bench.models:
            model.close()


main()
