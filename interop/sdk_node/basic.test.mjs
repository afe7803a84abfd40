// The public Agent SDK for TypeScript drives the real gimlet; only the model is scripted.
// scripts/interop sets GIMLET_BIN and installs the SDK without the program that it would otherwise bring along.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, realpathSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";

import { createSdkMcpServer, query, tool } from "@anthropic-ai/claude-agent-sdk";
import { z } from "zod";

const binary = process.env.GIMLET_BIN;
assert.ok(binary && existsSync(binary), "GIMLET_BIN must name the gimlet to test; scripts/interop sets it");

const say = (text) => ({ reply: { blocks: [{ text }] } });
const call = (name, input) => ({ reply: { blocks: [{ tool: name, input }] } });

/** A home, a project, and a model that plays these steps. */
async function bench(steps) {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "gimlet-sdk-")));
  const [home, project, record] = ["home", "project", "record"].map((name) => join(root, name));
  mkdirSync(home);
  mkdirSync(project);
  const script = join(root, "script.json");
  writeFileSync(script, JSON.stringify({ steps }));
  const server = spawn(binary, ["dev", "scripted-model", script, "--record", record], { stdio: ["pipe", "pipe", "pipe"] });
  const failures = [];
  server.stderr.on("data", (data) => failures.push(String(data)));
  const ended = new Promise((resolve) => server.once("close", resolve));
  const first = await new Promise((resolve) => createInterface({ input: server.stdout }).once("line", resolve));
  const { url } = JSON.parse(first);
  const { PATH } = process.env;
  const env = { PATH, HOME: home, CLAUDE_CONFIG_DIR: home, ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: "test-key" };
  return {
    project,
    options: (more = {}) => ({ pathToClaudeCodeExecutable: binary, cwd: project, env, ...more }),
    requests: () =>
      readdirSync(record)
        .filter((name) => name.endsWith(".request"))
        .sort()
        .map((name) => readFileSync(join(record, name), "utf8"))
        .filter((text) => text.startsWith("POST /v1/messages HTTP"))
        .map((text) => JSON.parse(text.slice(text.indexOf("\n\n") + 2))),
    close: async () => {
      server.stdin.end();
      assert.equal(await ended, 0, failures.join(""));
    },
  };
}

async function collect(messages) {
  const all = [];
  for await (const message of messages) all.push(message);
  return all;
}

const results = (messages) =>
  messages
    .filter((message) => message.type === "user" && Array.isArray(message.message.content))
    .flatMap((message) => message.message.content.filter((block) => block.type === "tool_result"));

test("a question is answered and summed up", async () => {
  const made = await bench([say("Four.")]);
  const messages = await collect(query({ prompt: "2+2?", options: made.options() }));
  assert.equal(messages[0].subtype, "init");
  assert.equal(messages[0].cwd, made.project);
  const result = messages.at(-1);
  assert.deepEqual([result.type, result.subtype, result.result], ["result", "success", "Four."]);
  await made.close();
});

test("the permission callback allows, edits and denies", async () => {
  const write = (name) => call("Bash", { command: `touch ${name}` });
  const made = await bench([write("one"), write("two"), write("three"), say("done")]);
  const asked = [];
  const canUseTool = async (name, input) => {
    asked.push(input.command);
    if (input.command === "touch one") return { behavior: "allow", updatedInput: input };
    if (input.command === "touch two") return { behavior: "allow", updatedInput: { command: "touch edited" } };
    return { behavior: "deny", message: "not that one" };
  };
  async function* prompts() {
    yield { type: "user", message: { role: "user", content: "go" }, parent_tool_use_id: null, session_id: "" };
  }
  const messages = await collect(query({ prompt: prompts(), options: made.options({ canUseTool }) }));
  assert.deepEqual(asked, ["touch one", "touch two", "touch three"]);
  const files = readdirSync(made.project).sort();
  assert.deepEqual(files, ["edited", "one"]);
  assert.match(JSON.stringify(results(messages).at(-1)), /not that one/);
  await made.close();
});

test("questions carry previews in the form that the program wants", async () => {
  const options = [{ label: "A", description: "", preview: "<b>A</b>" }, { label: "B", description: "" }];
  const ask = call("AskUserQuestion", { questions: [{ question: "Which look?", header: "Look", options, multiSelect: false }] });
  for (const [toolConfig, preview] of [
    [{ askUserQuestion: { previewFormat: "html" } }, "<b>A</b>"],
    [undefined, undefined],
  ]) {
    const made = await bench([ask, say("ok")]);
    const seen = [];
    const canUseTool = async (name, input) => {
      seen.push(input.questions[0].options[0].preview);
      return { behavior: "allow", updatedInput: { ...input, answers: { "Which look?": "A" } } };
    };
    async function* prompts() {
      yield { type: "user", message: { role: "user", content: "go" }, parent_tool_use_id: null, session_id: "" };
    }
    const messages = await collect(query({ prompt: prompts(), options: made.options({ canUseTool, toolConfig }) }));
    assert.deepEqual(seen, [preview]);
    assert.match(JSON.stringify(results(messages)), /Which look\? -> A/);
    await made.close();
  }
});

test("hooks see calls and can refuse them", async () => {
  const made = await bench([call("Bash", { command: "touch x" }), say("ok")]);
  const seen = [];
  const hook = async (input) => {
    seen.push(input.tool_name);
    return { hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision: "deny", permissionDecisionReason: "no" } };
  };
  const hooks = { PreToolUse: [{ matcher: "Bash", hooks: [hook] }] };
  const messages = await collect(query({ prompt: "go", options: made.options({ hooks, allowedTools: ["Bash"] }) }));
  assert.deepEqual(seen, ["Bash"]);
  assert.equal(results(messages)[0].is_error, true);
  assert.ok(!existsSync(join(made.project, "x")));
  await made.close();
});

test("tools of the program are called", async () => {
  const made = await bench([call("mcp__calc__add", { a: 2, b: 3 }), say("five")]);
  const add = tool("add", "Adds.", { a: z.number(), b: z.number() }, async ({ a, b }) => ({
    content: [{ type: "text", text: `sum ${a + b}` }],
  }));
  const mcpServers = { calc: createSdkMcpServer({ name: "calc", version: "1.0.0", tools: [add] }) };
  const messages = await collect(
    query({ prompt: "2+3", options: made.options({ mcpServers, allowedTools: ["mcp__calc__add"] }) }),
  );
  assert.match(JSON.stringify(results(messages)), /sum 5/);
  await made.close();
});

test("an answer can have a shape", async () => {
  const schema = { type: "object", properties: { sum: { type: "integer" } }, required: ["sum"] };
  const made = await bench([call("StructuredOutput", { sum: 4 })]);
  const outputFormat = { type: "json_schema", schema };
  const messages = await collect(query({ prompt: "2+2", options: made.options({ outputFormat }) }));
  assert.deepEqual(messages.at(-1).structured_output, { sum: 4 });
  await made.close();
});

test("a session is gone on with", async () => {
  const made = await bench([say("hello"), say("again")]);
  const first = (await collect(query({ prompt: "remember me", options: made.options() }))).at(-1);
  const second = (await collect(query({ prompt: "and?", options: made.options({ resume: first.session_id }) }))).at(-1);
  assert.equal(second.session_id, first.session_id);
  assert.match(JSON.stringify(made.requests()[1].messages), /remember me/);
  await made.close();
});

test("a running turn is interrupted, and its modes and models are changed", async () => {
  const made = await bench([call("Bash", { command: "touch started; sleep 600" }), say("back")]);
  let next;
  const waiting = new Promise((resolve) => (next = resolve));
  async function* prompts() {
    const prompt = (content) => ({ type: "user", message: { role: "user", content }, parent_tool_use_id: null, session_id: "" });
    yield prompt("sleep");
    yield prompt(await waiting);
  }
  const running = query({ prompt: prompts(), options: made.options({ allowedTools: ["Bash"] }) });
  const ends = [];
  for await (const message of running) {
    if (message.type === "assistant" && message.message.content.some((block) => block.type === "tool_use")) {
      while (!existsSync(join(made.project, "started"))) await new Promise((resolve) => setTimeout(resolve, 10));
      await running.interrupt();
    }
    if (message.type === "result") {
      ends.push(message.subtype);
      if (ends.length === 2) break;
      await running.setPermissionMode("acceptEdits");
      await running.setModel("claude-haiku-4-5");
      next("hello?");
    }
  }
  assert.deepEqual(ends, ["error_during_execution", "success"]);
  assert.match(made.requests()[1].model, /haiku/);
  await made.close();
});
