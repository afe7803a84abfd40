// What the tests of the TypeScript SDK work with: a home, a project and a scripted model each.
// scripts/interop sets GIMLET_BIN and installs the SDK without the program that it would otherwise bring along.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, realpathSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const binary = process.env.GIMLET_BIN;
assert.ok(binary && existsSync(binary), "GIMLET_BIN must name the gimlet to test; scripts/interop sets it");

export const say = (text, usage) => ({ reply: { blocks: [{ text }], usage } });
export const call = (name, input) => ({ reply: { blocks: [{ tool: name, input }] } });

/** A home, a project, and a model that plays these steps. */
export async function bench(steps) {
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
    home,
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

export async function collect(messages) {
  const all = [];
  for await (const message of messages) all.push(message);
  return all;
}

export const results = (messages) =>
  messages
    .filter((message) => message.type === "user" && Array.isArray(message.message.content))
    .flatMap((message) => message.message.content.filter((block) => block.type === "tool_result"));

export const user = (content) => ({ type: "user", message: { role: "user", content }, parent_tool_use_id: null, session_id: "" });

/** Prompts that are sent one by one: the next when it is given. */
export function talk(first) {
  const waiting = [user(first)];
  let wake = () => {};
  let ended = false;
  return {
    say: (content) => (waiting.push(user(content)), wake()),
    end: () => ((ended = true), wake()),
    async *[Symbol.asyncIterator]() {
      for (;;) {
        while (waiting.length > 0) yield waiting.shift();
        if (ended) return;
        await new Promise((resolve) => (wake = resolve));
      }
    },
  };
}

/** The names of the tools that a message calls. */
export const calls = (message) =>
  message.type === "assistant" ? message.message.content.filter((block) => block.type === "tool_use").map((block) => block.name) : [];

export async function until(condition) {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 10));
}

/** A command that says that it runs and goes on when it is let. */
export const WAITS = "touch started; until [ -e go ]; do sleep 0.02; done";
