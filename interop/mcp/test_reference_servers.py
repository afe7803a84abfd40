"""The other reference servers, each with what it is for."""

import http.server
import subprocess
import threading

import pytest
from conftest import blocks, node_server, python_server, text, tool_call

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6364f8cf500f00038601805a347d6b0000000049454e44ae426082"
)


@pytest.mark.smoke
def test_filesystem_works_in_the_folders_that_gimlet_names(bench):
    (bench.project / "notes.txt").write_text("one\ntwo\n")
    (bench.project / "pixel.png").write_bytes(PIXEL)
    servers = {"fs": node_server("filesystem", bench.project)}
    note, made = str(bench.project / "notes.txt"), str(bench.project / "made.txt")
    run = bench.run(
        servers,
        blocks(
            tool_call("fs", "read_text_file", {"path": note}),
            tool_call("fs", "write_file", {"path": made, "content": "new"}),
            tool_call("fs", "read_media_file", {"path": str(bench.project / "pixel.png")}),
            tool_call("fs", "read_text_file", {"path": "/etc/passwd"}),
        ),
        blocks(
            tool_call("fs", "edit_file", {"path": note, "edits": [{"oldText": "two", "newText": "three"}]}),
            tool_call("fs", "list_directory", {"path": str(bench.project)}),
        ),
        text("done"),
    )
    read, written, media, outside = run.results()
    assert "one\ntwo" in str(read).replace("\\n", "\n")
    assert (bench.project / "made.txt").read_text() == "new", written
    assert any(part["type"] == "image" for part in media), media
    assert "outside allowed" in str(outside), outside
    edited, listed = run.results(2)
    assert (bench.project / "notes.txt").read_text() == "one\nthree\n", edited
    assert "made.txt" in str(listed)


def test_filesystem_takes_its_folders_from_the_roots(bench):
    """Without folders of its own it serves those that the client names."""
    servers = {"fs": node_server("filesystem")}
    run = bench.call(servers, tool_call("fs", "list_allowed_directories", {}))
    assert str(bench.project) in run.texts()[0], run.texts()


@pytest.mark.smoke
def test_memory_keeps_what_it_is_told_and_offers_it_as_a_resource(bench):
    servers = {"memory": node_server("memory", env={"MEMORY_FILE_PATH": str(bench.root / "memory.jsonl")})}
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}
    relation = {"from": "Ada", "to": "Charles", "relationType": "knows"}
    run = bench.run(
        servers,
        blocks(tool_call("memory", "create_entities", {"entities": [entity]})),
        blocks(
            tool_call("memory", "create_relations", {"relations": [relation]}),
            tool_call("memory", "search_nodes", {"query": "program"}),
            {"tool": "ReadMcpResourceTool", "input": {"server": "memory", "uri": "memory://knowledge-graph"}},
        ),
        text("done"),
    )
    related, found, resource = run.texts(2)
    assert "wrote the first program" in found
    assert "Ada" in resource
    assert related


@pytest.mark.smoke
def test_sequential_thinking_counts_thoughts(bench):
    thought = {"thought": "It depends.", "thoughtNumber": 1, "totalThoughts": 2, "nextThoughtNeeded": True}
    run = bench.call(
        {"think": node_server("sequential-thinking")}, tool_call("think", "sequentialthinking", thought)
    )
    assert '"thoughtHistoryLength": 1' in run.texts()[0], run.texts()


@pytest.mark.smoke
def test_git_commits_in_a_repository(bench):
    repository = bench.project
    for command in (["init", "-q"], ["config", "user.name", "Ada"], ["config", "user.email", "ada@example.com"]):
        subprocess.run(["git", "-C", repository, *command], check=True)
    (repository / "a.txt").write_text("a\n")
    where = {"repo_path": str(repository)}
    run = bench.run(
        {"git": python_server("git", "--repository", repository)},
        blocks(tool_call("git", "git_status", where)),
        blocks(tool_call("git", "git_add", {**where, "files": ["a.txt"]})),
        blocks(tool_call("git", "git_commit", {**where, "message": "begin"})),
        blocks(tool_call("git", "git_log", {**where, "max_count": 1})),
        text("done"),
    )
    assert "a.txt" in run.texts(1)[0]
    assert "begin" in run.texts(4)[0]
    logged = subprocess.run(["git", "-C", repository, "log", "--format=%s"], check=True, capture_output=True, text=True)
    assert logged.stdout == "begin\n"


@pytest.mark.smoke
def test_time_converts(bench):
    run = bench.call(
        {"time": python_server("time", "--local-timezone", "Etc/UTC")},
        tool_call("time", "get_current_time", {"timezone": "Europe/Paris"}),
        tool_call(
            "time",
            "convert_time",
            {"source_timezone": "Etc/UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        ),
        tool_call("time", "get_current_time", {"timezone": "Nowhere/None"}),
    )
    now, converted, wrong = run.texts()
    assert "Europe/Paris" in now
    assert "21:00" in converted
    assert "Nowhere/None" in wrong or "timezone" in wrong, wrong


@pytest.fixture
def page():
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = b"<html><body><h1>Gimlets</h1><p>A small tool for <b>boring</b> holes.</p></body></html>"
            self.send_response(200 if self.path == "/page" else 404)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/page"
    server.shutdown()


@pytest.mark.smoke
def test_fetch_reads_a_page(bench, page):
    servers = {"web": python_server("fetch", "--allow-private-ips", "--ignore-robots-txt")}
    run = bench.call(servers, tool_call("web", "fetch", {"url": page}), tool_call("web", "fetch", {"url": "no url"}))
    read, wrong = run.texts()
    assert "boring" in read, read
    assert wrong
    run = bench.run(servers, text("done"), prompt=f"/mcp__web__fetch {page}")
    assert "boring" in run.prompt(), run.prompt()
