// Sessions that go on, are copied, and what the SDK's own helpers make of them.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  deleteSession,
  forkSession,
  getSessionInfo,
  getSessionMessages,
  listSessions,
  query,
  renameSession,
  tagSession,
} from "@anthropic-ai/claude-agent-sdk";

import { bench, collect, say } from "./bench.mjs";

test("a session is gone on with", async () => {
  const made = await bench([say("hello"), say("again")]);
  const first = (await collect(query({ prompt: "remember me", options: made.options() }))).at(-1);
  const second = (await collect(query({ prompt: "and?", options: made.options({ resume: first.session_id }) }))).at(-1);
  assert.equal(second.session_id, first.session_id);
  assert.match(JSON.stringify(made.requests()[1].messages), /remember me/);
  await made.close();
});

test("the newest session is continued, and a fork leaves its source alone", async () => {
  const made = await bench([say("a"), say("b"), say("c"), say("d")]);
  const turn = async (prompt, more) => (await collect(query({ prompt, options: made.options(more) }))).at(-1);
  const first = await turn("one");
  const second = await turn("two", { continue: true });
  const fork = await turn("three", { resume: first.session_id, forkSession: true });
  const after = await turn("four", { resume: first.session_id });
  assert.equal(second.session_id, first.session_id);
  assert.notEqual(fork.session_id, first.session_id);
  assert.equal(after.session_id, first.session_id);
  const [, , forked, last] = made.requests().map((request) => JSON.stringify(request.messages));
  assert.match(forked, /"one".*"two".*"three"/);
  assert.match(last, /"one".*"two".*"four"/);
  assert.doesNotMatch(last, /"three"/);
  await made.close();
});

test("the helpers of the SDK find, name, tag, copy and delete what gimlet wrote", async () => {
  const made = await bench([say("hello"), say("again")]);
  process.env.CLAUDE_CONFIG_DIR = made.home;
  const where = { dir: made.project };
  const { session_id: id } = (await collect(query({ prompt: "remember me", options: made.options() }))).at(-1);
  assert.deepEqual((await listSessions(where)).map((session) => session.sessionId), [id]);
  const messages = await getSessionMessages(id, where);
  assert.deepEqual(messages.map((message) => message.type), ["user", "assistant"]);
  assert.match(JSON.stringify(messages), /remember me.*hello/);

  await renameSession(id, "the first", where);
  await tagSession(id, "kept", where);
  const info = await getSessionInfo(id, where);
  assert.deepEqual([info.sessionId, info.customTitle, info.tag], [id, "the first", "kept"]);

  const copy = await forkSession(id, where);
  assert.notEqual(copy.sessionId, id);
  const went = (await collect(query({ prompt: "and?", options: made.options({ resume: copy.sessionId }) }))).at(-1);
  assert.equal(went.session_id, copy.sessionId);
  assert.match(JSON.stringify(made.requests()[1].messages), /remember me/);

  await deleteSession(id, where);
  assert.deepEqual((await listSessions(where)).map((session) => session.sessionId), [copy.sessionId]);
  await made.close();
});
