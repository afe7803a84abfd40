"""Sessions on disk: gone on with, copied, and seen by the SDK's own helpers."""

import json

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    InMemorySessionStore,
    ResultMessage,
    delete_session,
    fork_session,
    get_session_info,
    get_session_messages,
    list_sessions,
    project_key_for_directory,
    query,
    rename_session,
    tag_session,
)

from conftest import call, collect, of, only, text

pytestmark = pytest.mark.anyio


async def ask(bench, model, prompt, **options):
    return await collect(query(prompt=prompt, options=bench.options(model, **options)))


async def test_resume_goes_on_in_the_same_session(bench):
    model = bench.model(text("hello"), text("you said remember"))
    first = (await ask(bench, model, "remember"))[-1]
    again = await ask(bench, model, "what?", resume=first.session_id)
    assert again[-1].session_id == first.session_id
    assert [r for r in of(again, ResultMessage)] == [again[-1]], "history is not shown again"
    assert "remember" in json.dumps(model.requests()[1]["messages"])
    assert len(bench.transcripts()) == 1


async def test_continue_takes_the_newest_of_this_folder(bench):
    model = bench.model(text("a"), text("b"))
    first = (await ask(bench, model, "one"))[-1]
    second = (await ask(bench, model, "two", continue_conversation=True))[-1]
    assert second.session_id == first.session_id


async def test_fork_leaves_the_source_alone(bench):
    model = bench.model(text("a"), text("b"))
    first = (await ask(bench, model, "one"))[-1]
    source = only(bench.transcripts())
    before = source.read_bytes()
    second = (await ask(bench, model, "two", resume=first.session_id, fork_session=True))[-1]
    assert second.session_id != first.session_id
    assert source.read_bytes() == before and len(bench.transcripts()) == 2
    assert "one" in json.dumps(model.requests()[1]["messages"])


async def test_resume_at_an_earlier_message(bench):
    model = bench.model(text("first answer"), text("second answer"), text("third"))
    first = await ask(bench, model, "one")
    anchor = only(of(first, AssistantMessage)).uuid
    session = first[-1].session_id
    await ask(bench, model, "two", resume=session)
    await ask(bench, model, "three", resume=session, resume_session_at=anchor, fork_session=True)
    said = json.dumps(model.requests()[2]["messages"])
    assert "first answer" in said and "second answer" not in said


async def test_the_helpers_see_what_gimlet_writes(bench):
    model = bench.model(call("Bash", {"command": "ls"}), text("an empty folder"))
    session = (await ask(bench, model, "what is here?"))[-1].session_id
    folder = str(bench.project)
    info = only(list_sessions(directory=folder))
    assert info.session_id == session and info.first_prompt == "what is here?"
    messages = get_session_messages(session, directory=folder)
    assert [m.type for m in messages] == ["user", "assistant", "user", "assistant"]
    rename_session(session, "My title", directory=folder)
    tag_session(session, "important", directory=folder)
    info = get_session_info(session, directory=folder)
    assert (info.custom_title, info.tag) == ("My title", "important")
    copy = fork_session(session, directory=folder).session_id
    model2 = bench.model(text("still here"))
    again = (await ask(bench, model2, "and now?", resume=copy))[-1]
    assert again.session_id == copy and "what is here?" in json.dumps(only(model2.requests())["messages"])
    by_title = bench.model(text("found"))
    assert (await ask(bench, by_title, "hi", resume="My title"))[-1].session_id == session
    delete_session(session, directory=folder)
    assert session not in [s.session_id for s in list_sessions(directory=folder)]


async def test_a_given_id_is_used_and_a_taken_one_refused(bench):
    wanted = "11111111-2222-4333-8444-555555555555"
    model = bench.model(text("ok"))
    assert (await ask(bench, model, "hi", session_id=wanted))[-1].session_id == wanted
    with pytest.raises(Exception) as caught:
        await ask(bench, model, "hi", session_id=wanted)
    assert "already in use" in str(caught.value)


async def kept(store, bench, session):
    """The entries that the store has of a session, by the SDK's own reckoning of where they belong."""
    key = {"project_key": project_key_for_directory(str(bench.project)), "session_id": session}
    return await store.load(key)


def written(bench):
    return [json.loads(line) for line in only(bench.transcripts()).read_text().splitlines()]


def plain(messages):
    """Messages without the marks of the cache, which move on with every request."""
    if isinstance(messages, dict):
        return {name: plain(value) for name, value in messages.items() if name != "cache_control"}
    return [plain(part) for part in messages] if isinstance(messages, list) else messages


async def test_a_store_of_the_program_gets_every_entry_and_can_bring_the_session_back(bench):
    store = InMemorySessionStore()
    model = bench.model(call("Bash", {"command": "ls"}), text("kept"), text("again"))
    first = (await ask(bench, model, "keep this", session_store=store))[-1]
    entries = written(bench)
    assert await kept(store, bench, first.session_id) == entries, "entry by entry what the file has"
    kinds = [entry["type"] for entry in entries if entry["type"] in ("user", "assistant")]
    assert kinds.count("assistant") == 2 and kinds.count("user") >= 2
    only(bench.transcripts()).unlink()
    second = (await ask(bench, model, "and?", session_store=store, resume=first.session_id))[-1]
    assert second.session_id == first.session_id
    sent = model.requests()
    before = plain(sent[1]["messages"])
    assert plain(sent[2]["messages"])[: len(before)] == before, "nothing is lost on the way"
    after = await kept(store, bench, first.session_id)
    assert after[: len(entries)] == entries and len(after) > len(entries), "it grows behind what was there"
