"""Which settings a program gets, and which it asked not to get."""

import json

import pytest
from claude_agent_sdk import query

from conftest import call, collect, of, only, text

pytestmark = pytest.mark.anyio


async def init(bench, **options):
    model = bench.model(text("ok"))
    return (await collect(query(prompt="hi", options=bench.options(model, **options))))[0].data


async def test_sources_decide_what_is_read(bench):
    (bench.home / "settings.json").write_text('{"outputStyle": "user style"}')
    local = bench.project / ".claude"
    local.mkdir()
    (local / "settings.local.json").write_text('{"outputStyle": "local style"}')
    assert (await init(bench, setting_sources=["user"]))["output_style"] == "user style"
    assert (await init(bench, setting_sources=["user", "project", "local"]))["output_style"] == "local style"
    assert (await init(bench, setting_sources=[]))["output_style"] == "default"


async def test_inline_settings_hold_and_a_deny_in_them_denies(bench):
    settings = json.dumps({"permissions": {"deny": ["Bash(ls *)"]}})
    model = bench.model(call("Bash", {"command": "ls -la"}), text("ok"))
    messages = await collect(query(prompt="go", options=bench.options(model, settings=settings)))
    assert only(messages[-1].permission_denials)["tool_name"] == "Bash"


async def test_only_the_named_tools_are_offered(bench):
    model = bench.model(text("ok"))
    await collect(query(prompt="hi", options=bench.options(model, tools=["Read", "Grep"])))
    assert sorted(t["name"] for t in only(model.requests())["tools"]) == ["Grep", "Read"]
    none = bench.model(text("ok"))
    await collect(query(prompt="hi", options=bench.options(none, tools=[])))
    assert not only(none.requests()).get("tools")


async def test_thinking_and_effort_reach_the_model(bench):
    model = bench.model(text("ok"), text("ok"))
    await collect(query(prompt="hi", options=bench.options(model, model="claude-sonnet-4-5", max_thinking_tokens=8000)))
    await collect(query(prompt="hi", options=bench.options(model, model="claude-sonnet-4-5", thinking={"type": "disabled"})))
    first, second = model.requests()
    assert first["thinking"]["budget_tokens"] == 8000
    assert second.get("thinking", {}).get("type", "disabled") == "disabled"


async def test_more_folders_may_be_read(bench):
    other = bench.root / "other"
    other.mkdir()
    (other / "b.txt").write_text("over here\n")
    model = bench.model(call("Read", {"file_path": str(other / "b.txt")}), text("ok"))
    messages = await collect(query(prompt="read", options=bench.options(model, add_dirs=[str(other)])))
    assert messages[-1].permission_denials == []
    assert "over here" in json.dumps(model.requests()[1]["messages"])
