"""A tool server on pipes that behaves as its arguments say, in a few lines and without any package."""
import json
import os
import signal
import subprocess
import sys
import time

HOW = sys.argv[1] if len(sys.argv) > 1 else "good"
NOTE = os.environ.get("STUB_NOTE")
if NOTE:
    with open(NOTE, "a") as note:
        note.write(f"{os.getpid()}\n")
    with open(NOTE + ".env", "w") as note:
        json.dump(dict(os.environ), note)


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(request, result):
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def tool(name, description, properties=None, **more):
    return {"name": name, "description": description,
            "inputSchema": {"type": "object", "properties": properties or {}}, **more}


TOOLS = [tool("echo", "Says it again.", {"words": {"type": "string"}}, annotations={"readOnlyHint": True}),
         tool("die", "Ends the server."), tool("slow", "Takes its time, with progress."),
         tool("big", "Answers at length."), tool("picture", "Shows a picture and a file."),
         tool("ask", "Asks the user."), tool("huge", "Sends a line without end."),
         tool("update", "Changes resources."), tool("roots", "Says where the client works."),
         tool("decide", "Decides about permissions.", {"tool_name": {"type": "string"}})]

if HOW == "exits":
    print("stub: the database is not there", file=sys.stderr)
    sys.exit(3)
if HOW == "silent":
    time.sleep(600)
if HOW == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["setsid", "sleep", "600"], stdout=subprocess.DEVNULL)
if HOW == "noisy":
    print("Welcome to the stub!\n{\"jsonrpc\": \"2.0\", \"half\n")
    sys.stderr.write("x" * 3_000_000)
    send({"jsonrpc": "2.0", "id": 4711, "result": {}})

listed, moves, updated = 0, 0, False
for line in sys.stdin:
    request = json.loads(line)
    method, params = request.get("method"), request.get("params") or {}
    if method == "initialize":
        answer(request, {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "stub", "version": "1"},
                         "instructions": "Use echo for words.",
                         "capabilities": {"tools": {"listChanged": True}, "prompts": {}, "resources": {"subscribe": True}}})
    elif method == "notifications/roots/list_changed":
        moves += 1
    elif method == "tools/list":
        listed += 1
        more = [tool("late", "Came later.")] if listed > 1 else []
        odd = [{"name": "odd"}] if HOW == "noisy" else []
        answer(request, {"tools": TOOLS + more + odd})
    elif method == "prompts/list":
        arguments = [{"name": "name", "required": True}, {"name": "tone"}]
        second = [{"name": "second"}] if updated else []
        answer(request, {"prompts": [{"name": "greet", "description": "Greets.", "arguments": arguments}, *second]})
    elif method == "prompts/get":
        given = params.get("arguments") or {}
        words = f"Greet {given.get('name')} in a {given.get('tone', 'plain')} tone."
        answer(request, {"messages": [{"role": "user", "content": {"type": "text", "text": words}}]})
    elif method == "resources/list":
        answer(request, {"resources": [{"uri": "stub://motd", "name": "motd", "mimeType": "text/plain"}]})
    elif method == "resources/subscribe":
        answer(request, {})
    elif method == "resources/read":
        if params["uri"] == "stub://motd":
            contents = [{"uri": params["uri"], "mimeType": "text/plain", "text": "the message of the day"}]
        elif params["uri"] == "stub://bytes":
            contents = [{"uri": params["uri"], "mimeType": "application/zip", "blob": "UEsFBg=="}]
        else:
            send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32002, "message": "no such resource"}})
            continue
        answer(request, {"contents": contents})
    elif method == "tools/call":
        name, given = params["name"], params.get("arguments") or {}
        if name == "echo":
            answer(request, text(f"echo: {given.get('words')}"))
        elif name == "die":
            print("stub: out of memory", file=sys.stderr)
            sys.exit(9)
        elif name == "slow":
            token = params["_meta"]["progressToken"]
            send({"jsonrpc": "2.0", "method": "notifications/progress",
                  "params": {"progressToken": token, "progress": 1, "total": 2, "message": "half"}})
            if HOW == "good":
                answer(request, text("slow and done"))
        elif name == "big":
            answer(request, text("a long line of words\n" * 20_000))
        elif name == "picture":
            content = [{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="},
                       {"type": "resource", "resource": {"uri": "stub://z", "mimeType": "application/zip", "blob": "UEsFBg=="}}]
            answer(request, {"content": content, "structuredContent": {"count": 2}})
        elif name == "ask":
            send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
                  "params": {"message": "Which?", "requestedSchema": {"type": "object", "properties": {
                      "day": {"type": "string"}, "guests": {"type": "integer", "default": 2}}}}})
            reply = json.loads(sys.stdin.readline())
            answer(request, text(f"the user chose {reply['result']['action']} {reply['result'].get('content')}"))
        elif name == "huge":
            for _ in range(1024):
                sys.stdout.write("x" * (1 << 20))
        elif name == "update":
            for uri in ["stub://motd", "stub://never-read"]:
                send({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
            updated = True
            send({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"})
            answer(request, text("updated"))
        elif name == "roots":
            send({"jsonrpc": "2.0", "id": "r", "method": "roots/list"})
            reply = json.loads(sys.stdin.readline())
            answer(request, text(" ".join(root["uri"] for root in reply["result"]["roots"]) + f" after {moves} moves"))
        elif name == "decide":
            verdict = {"behavior": "allow", "updatedInput": given["input"]}
            if "forbidden" in json.dumps(given["input"]):
                verdict = {"behavior": "deny", "message": "the stub forbids it"}
            answer(request, text(json.dumps(verdict)))
    elif "id" in request and method:
        send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "not here"}})
if HOW == "stubborn":
    time.sleep(600)
