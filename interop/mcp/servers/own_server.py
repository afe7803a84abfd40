"""A server written with the official Python library: questions, progress, changing lists, and answers of every kind."""

import asyncio
import os
import sys

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel, Field

server = MCPServer("own-python")


class Booking(BaseModel):
    day: str = Field(description="Day of the visit")
    guests: int = Field(default=2, description="Number of guests")


@server.tool()
async def book(ctx: Context) -> str:
    """Books a table, after a question."""
    answer = await ctx.elicit("When?", Booking)
    if answer.action != "accept":
        return f"the user chose {answer.action}"
    return f"booked {answer.data.day} for {answer.data.guests}"


@server.tool()
async def visit(ctx: Context) -> str:
    """Wants the user to open a page."""
    answer = await ctx.elicit_url("Please sign in", "https://example.com/sign-in", "e-1")
    return f"the user chose {answer.action}"


@server.tool()
async def count(ctx: Context, steps: int) -> str:
    """Counts, with progress."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
        await ctx.info(f"at step {step + 1}")
        await asyncio.sleep(0.05)
    return f"counted to {steps}"


@server.tool()
async def grow(ctx: Context, name: str) -> str:
    """Adds a tool while it runs."""

    def added() -> str:
        return f"this is {name}"

    server.add_tool(added, name=name, description="Came later.")
    await ctx.session.send_tool_list_changed()
    return "added"


@server.tool()
def big(words: int) -> str:
    """Answers at length."""
    return "word " * words


@server.tool()
async def slow(note: str) -> str:
    """Never answers; notes that it was withdrawn."""
    try:
        await asyncio.sleep(600)
    finally:
        with open(note, "w") as file:
            file.write("withdrawn")
    return "never"


@server.tool()
def die() -> str:
    """Ends in the middle of a call."""
    print("own-python: no more memory", file=sys.stderr, flush=True)
    os._exit(7)


@server.resource("own://readme")
def readme() -> str:
    return "read me first"


@server.resource("own://items/{name}")
def item(name: str) -> str:
    return f"item {name}"


@server.prompt()
def review(file: str, tone: str = "kind") -> str:
    """Reviews a file."""
    return f"Review {file} in a {tone} tone."


if __name__ == "__main__":
    server.run()
