// What a program changes while a turn runs: interrupts, modes, models, prompts, servers.

import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { createSdkMcpServer, query, tool } from "@anthropic-ai/claude-agent-sdk";

import { WAITS, bench, call, calls, say, talk, until } from "./bench.mjs";

test("a running turn is interrupted, and the next one has another model", async () => {
  const made = await bench([call("Bash", { command: "touch started; sleep 600" }), say("back")]);
  const prompts = talk("sleep");
  const running = query({ prompt: prompts, options: made.options({ allowedTools: ["Bash"] }) });
  const ends = [];
  for await (const message of running) {
    if (calls(message).includes("Bash")) {
      await until(() => existsSync(join(made.project, "started")));
      await running.interrupt();
    }
    if (message.type === "result") {
      ends.push(message.subtype);
      if (ends.length === 2) break;
      await running.setModel("claude-haiku-4-5");
      prompts.say("hello?");
    }
  }
  assert.deepEqual(ends, ["error_during_execution", "success"]);
  assert.match(made.requests()[1].model, /haiku/);
  await made.close();
});

test("another mode counts for what the running turn does next", async () => {
  let made;
  const write = (name) => call("Write", { file_path: name, content: "x" });
  made = await bench([write("a"), call("Bash", { command: WAITS }), write("b"), say("done")]);
  const prompts = talk("go");
  const running = query({ prompt: prompts, options: made.options({ allowedTools: ["Bash"] }) });
  let changed = false;
  let result;
  for await (const message of running) {
    if (calls(message).includes("Bash")) {
      await until(() => existsSync(join(made.project, "started")));
      await running.setPermissionMode("acceptEdits");
      changed = true;
      writeFileSync(join(made.project, "go"), "");
    }
    if (message.type === "result") {
      result = message;
      break;
    }
  }
  assert.ok(changed);
  assert.equal(result.result, "done");
  assert.equal(result.permission_denials.length, 1);
  assert.ok(!existsSync(join(made.project, "a")) && existsSync(join(made.project, "b")));
  await made.close();
});

test("a prompt that comes while a turn runs joins it", async () => {
  const made = await bench([call("Bash", { command: WAITS }), say("both")]);
  const prompts = talk("first");
  const running = query({ prompt: prompts, options: made.options({ allowedTools: ["Bash"] }) });
  let result;
  for await (const message of running) {
    if (calls(message).includes("Bash")) {
      await until(() => existsSync(join(made.project, "started")));
      prompts.say("second");
      // Requests and prompts are read in their order: once this is answered, the prompt is there too.
      await new Promise((resolve) => setTimeout(resolve, 0));
      await running.setModel("claude-haiku-4-5");
      assert.ok(!existsSync(join(made.project, "go")), "the command still runs");
      writeFileSync(join(made.project, "go"), "");
    }
    if (message.type === "result") {
      result = message;
      break;
    }
  }
  assert.equal(result.result, "both");
  const [first, joined] = made.requests();
  assert.doesNotMatch(JSON.stringify(first.messages), /second/);
  const last = joined.messages.at(-1).content;
  assert.equal(last[0].type, "tool_result");
  assert.match(JSON.stringify(last.slice(1)), /second/);
  await made.close();
});

const hello = (name) =>
  tool(name, "Says hello.", {}, async () => ({ content: [{ type: "text", text: `hello from ${name}` }] }));

test("servers are set, speak about themselves, and list other tools while a session goes on", async () => {
  const made = await bench([say("1"), say("2"), say("3"), say("4")]);
  const prompts = talk("one");
  const running = query({ prompt: prompts, options: made.options() });
  const server = createSdkMcpServer({ name: "s", instructions: "Greet before you work.", tools: [hello("one")] });
  const steps = [
    async () => {
      const change = await running.setMcpServers({ s: server });
      assert.deepEqual([change.added, change.removed, change.errors], [["s"], [], {}]);
    },
    // The server tells its client, the SDK tells gimlet.
    async () => server.instance.tool("two", "Says hello, too.", async () => ({ content: [] })),
    async () => assert.deepEqual((await running.setMcpServers({})).removed, ["s"]),
  ];
  for await (const message of running) {
    if (message.type !== "result") continue;
    const next = steps.shift();
    if (!next) break;
    await next();
    prompts.say("go on");
  }
  const requests = made.requests();
  const offered = requests.map((request) => request.tools.map((one) => one.name).filter((name) => name.startsWith("mcp__")));
  assert.deepEqual(offered, [[], ["mcp__s__one"], ["mcp__s__one", "mcp__s__two"], []]);
  const told = requests.map((request) => JSON.stringify(request.messages).split("Greet before you work.").length - 1);
  assert.deepEqual(told, [0, 1, 1, 1]);
  await made.close();
});
