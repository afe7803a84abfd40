// The public Agent SDK for TypeScript drives the real gimlet; only the model is scripted.

import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { createSdkMcpServer, query, tool } from "@anthropic-ai/claude-agent-sdk";
import { z } from "zod";

import { bench, call, collect, results, say } from "./bench.mjs";

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

test("the model's own events come as they are sent", async () => {
  const made = await bench([say("Hello there")]);
  const messages = await collect(query({ prompt: "hi", options: made.options({ includePartialMessages: true }) }));
  const events = messages.filter((message) => message.type === "stream_event").map((message) => message.event);
  assert.equal(events[0].type, "message_start");
  assert.equal(events.at(-1).type, "message_stop");
  const text = events.filter((event) => event.type === "content_block_delta").map((event) => event.delta.text);
  assert.equal(text.join(""), "Hello there");
  await made.close();
});

test("agents of the program are sent", async () => {
  const task = { description: "look", prompt: "look around", subagent_type: "helper", run_in_background: false };
  const made = await bench([call("Agent", task), say("I looked."), say("it looked")]);
  const agents = { helper: { description: "Helps.", prompt: "You are the helper of the tests.", tools: ["Read"] } };
  const messages = await collect(query({ prompt: "go", options: made.options({ agents }) }));
  assert.ok(messages[0].agents.includes("helper"));
  const [, inside] = made.requests();
  assert.match(JSON.stringify(inside.system), /You are the helper of the tests\./);
  assert.deepEqual(inside.tools.map((one) => one.name), ["Read"]);
  assert.match(JSON.stringify(results(messages)), /I looked\./);
  assert.equal(messages.at(-1).result, "it looked");
  await made.close();
});

test("what is remembered with a yes holds in the session and on disk", async () => {
  const made = await bench([call("Bash", { command: "touch one" }), call("Bash", { command: "touch two" }), say("done")]);
  const asked = [];
  const rule = (ruleContent, destination) => ({
    type: "addRules",
    rules: [{ toolName: "Bash", ruleContent }],
    behavior: "allow",
    destination,
  });
  const canUseTool = async (name, input) => {
    asked.push(input.command);
    const updatedPermissions = [rule("touch *", "session"), rule("make *", "localSettings")];
    return { behavior: "allow", updatedInput: input, updatedPermissions };
  };
  await collect(query({ prompt: "touch", options: made.options({ canUseTool }) }));
  assert.deepEqual(asked, ["touch one"], "the second call is covered by the new rule");
  assert.ok(existsSync(join(made.project, "one")) && existsSync(join(made.project, "two")));
  const kept = JSON.parse(readFileSync(join(made.project, ".claude", "settings.local.json"), "utf8"));
  assert.deepEqual(kept.permissions.allow, ["Bash(make *)"]);
  await made.close();
});

test("a budget ends the run and says so", async () => {
  const made = await bench([say("costly", { input_tokens: 1_000_000, output_tokens: 100_000 })]);
  const messages = [];
  // The SDK throws behind an error result; the result itself has come by then.
  await assert.rejects(async () => {
    for await (const message of query({ prompt: "go", options: made.options({ maxBudgetUsd: 2 }) })) messages.push(message);
  });
  const result = messages.at(-1);
  assert.deepEqual([result.type, result.subtype], ["result", "error_max_budget_usd"]);
  assert.ok(result.total_cost_usd > 2);
  await made.close();
});

test("what gimlet says on standard error reaches the program", async () => {
  const made = await bench([say("ok")]);
  writeFileSync(join(made.home, "settings.json"), '{"permissions":{"allow":["Read(",]}}');
  const said = [];
  const options = made.options({ stderr: (data) => said.push(data), settingSources: ["user"] });
  assert.equal((await collect(query({ prompt: "go", options }))).at(-1).result, "ok");
  assert.match(said.join(""), /settings\.json/);
  await made.close();
});
