// Hooks of the program: what they can do, and that every kind with an occasion is called.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { HOOK_EVENTS, query } from "@anthropic-ai/claude-agent-sdk";

import { bench, call, collect, results, say, talk } from "./bench.mjs";

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

// Kinds that nothing in gimlet leads to yet, or nothing that the SDK can ask for.
const WITHOUT_OCCASION = [
  "UserPromptExpansion",
  "PreCompact",
  "PostCompact",
  "Setup",
  "TeammateIdle",
  "TaskCreated",
  "TaskCompleted",
  "Elicitation",
  "ElicitationResult",
  "WorktreeCreate",
  "WorktreeRemove",
  "InstructionsLoaded",
  "FileChanged",
  "DirectoryAdded",
  "MessageDisplay",
];

test("every kind of hook that has an occasion is called", async () => {
  const seen = new Map();
  const hook = async (input) => {
    seen.set(input.hook_event_name, input);
    return {};
  };
  const hooks = Object.fromEntries(HOOK_EVENTS.map((event) => [event, [{ hooks: [hook] }]]));
  const agent = { description: "look", prompt: "look around", subagent_type: "Explore", run_in_background: false };
  const made = await bench([
    call("Bash", { command: "touch asked" }),
    call("Read", { file_path: "/nowhere/at/all" }),
    call("Bash", { command: "cd below" }),
    call("Agent", agent),
    say("I looked."),
    say("first"),
    // The second prompt, which another model refuses.
    { reply: { status: 400, error: { type: "invalid_request_error", message: "not today" } } },
    // The third, in auto mode: its reviewer says no.
    call("Bash", { command: "install /dev/null made" }),
    { when: { tools_include: ["verdict"] }, reply: { blocks: [{ tool: "verdict", input: { allow: false, reason: "nobody asked" } }] } },
    say("third"),
  ]);
  mkdirSync(join(made.project, "below"));
  const prompts = talk("one");
  const canUseTool = async (name, input) => ({ behavior: "allow", updatedInput: input });
  const options = made.options({ hooks, canUseTool, settingSources: ["user"], allowedTools: ["Bash(cd *)"] });
  const running = query({ prompt: prompts, options });
  const steps = [
    async () => {
      await running.setModel("claude-haiku-4-5");
      writeFileSync(join(made.home, "settings.json"), "{}");
      prompts.say("two");
    },
    async () => {
      await running.setPermissionMode("auto");
      prompts.say("three");
    },
    async () => prompts.say("/clear"),
  ];
  for await (const message of running) {
    if (message.type !== "result") continue;
    const next = steps.shift();
    if (!next) break;
    await next();
  }
  const called = HOOK_EVENTS.filter((event) => seen.has(event));
  assert.deepEqual(called, HOOK_EVENTS.filter((event) => !WITHOUT_OCCASION.includes(event)));
  for (const event of WITHOUT_OCCASION) assert.ok(HOOK_EVENTS.includes(event), `the SDK does not know ${event} any more`);
  const told = (event) => seen.get(event);
  assert.equal(told("PostToolUseFailure").tool_name, "Read");
  assert.equal(told("CwdChanged").new_cwd, join(made.project, "below"));
  assert.equal(told("ConfigChange").source, "user_settings");
  assert.match(told("PostModelSwitch").to_model, /haiku/);
  assert.equal(told("PermissionDenied").tool_name, "Bash");
  assert.equal(told("SessionEnd").reason, "clear");
  await made.close();
});
