"""OpenSandbox's MCP server, unmodified, driven by the MCP SDK's own client over stdio, as an agent's host does: started by the configuration that
docs/opensandbox.md shows.

SANDBOXD_TEST_NEWEST_MCP is the folder of programs of an environment with the newest MCP SDK, whose server hides what it didn't foresee.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path

import anyio
from mcp import ClientSession, StdioServerParameters, stdio_client

ALLOWED, DENIED = os.environ["SANDBOXD_TEST_ALLOWED"], os.environ["SANDBOXD_TEST_DENIED"]
PINNED, NEWEST = "", os.environ["SANDBOXD_TEST_NEWEST_MCP"]
CLOSED = {"defaultAction": "deny"}


def configured(programs: str) -> StdioServerParameters:
    """The server as the documentation configures it, with this server's address and key in the place of its own."""
    page = (Path(__file__).parents[4] / "docs" / "opensandbox.md").read_text()
    snippets = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    (server,) = [snippet["mcpServers"]["sandboxd"] for snippet in snippets if "mcpServers" in snippet]
    assert set(server["env"]) == {"OPEN_SANDBOX_DOMAIN", "OPEN_SANDBOX_API_KEY"}
    return StdioServerParameters(
        command=os.path.join(programs, server["command"]),
        args=server["args"],
        env={"PATH": os.environ["PATH"], "COLUMNS": "2000", **{name: os.environ[name] for name in server["env"]}},
    )


class Agent:
    """What an agent sees of the server: tools, called by name."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def call(self, name: str, **arguments):
        """The structured answer of a tool, which must succeed."""
        result = await self.session.call_tool(name, arguments)
        assert not result.is_error, result.content
        return result.structured_content

    async def refused(self, name: str, **arguments) -> str:
        """What a tool says that must fail."""
        result = await self.session.call_tool(name, arguments)
        assert result.is_error, result
        return "".join(part.text for part in result.content)

    async def command(self, box: str, command: str) -> tuple[int, str, str]:
        run = await self.call("command_run", sandbox_id=box, command=command)
        text = lambda stream: "|".join(message["text"] for message in run["logs"][stream])  # noqa: E731
        return run["exit_code"], text("stdout"), text("stderr")


def run(work, programs: str = PINNED) -> str:
    """Let an agent work, and give what the server has logged meanwhile, which it writes as wide as its terminal is."""

    async def main() -> str:
        with tempfile.TemporaryFile("w+") as log:
            async with stdio_client(configured(programs), errlog=log) as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                await work(Agent(session))
            log.seek(0)
            return log.read()

    return anyio.run(main)


def test_an_agents_work():
    """List tools, create, run, write, read, find, change, kill; and the network is what was asked for."""

    async def work(agent: Agent):
        names = {tool.name for tool in (await agent.session.list_tools()).tools}
        assert names >= {"sandbox_create", "sandbox_list", "sandbox_kill", "command_run", "command_interrupt", "file_read", "file_write", "file_search"}
        policy = CLOSED | {"egress": [{"action": "allow", "target": ALLOWED}]}
        made = await agent.call("sandbox_create", image="host", network_policy=policy, metadata={"agent": "one"}, env={"COLOUR": "green"})
        box = made["sandbox_id"]
        assert made["info"]["status"]["state"] == "Running"
        listed = await agent.call("sandbox_list", filter={"metadata": {"agent": "one"}})
        assert box in [item["id"] for item in listed["sandbox_infos"]]

        assert await agent.command(box, 'echo "$COLOUR"; echo warned >&2; exit 3') == (3, "green", "warned")
        code, said, _ = await agent.command(box, "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status; id -u")
        assert code == 0 and said.startswith("NoNewPrivs:\t1|Seccomp:\t2|") and not said.endswith("|0")
        assert (await agent.command(box, f"curl -sS -m 20 -o /dev/null -w '%{{http_code}}' http://{ALLOWED}/"))[:2] == (0, "200")
        code, _, error = await agent.command(box, f"curl -sS -m 20 http://{DENIED}/")
        assert code in (7, 56) and error

        await agent.call("file_create_directories", sandbox_id=box, entries=[{"path": "/work/notes"}])
        await agent.call("file_write", sandbox_id=box, path="/work/notes/one.txt", content="first\nsecond ä\n")
        assert (await agent.call("file_read", sandbox_id=box, path="/work/notes/one.txt"))["content"] == "first\nsecond ä\n"
        assert (await agent.call("file_read", sandbox_id=box, path="notes/one.txt", range_header="bytes=0-4"))["content"] == "first"
        found = await agent.call("file_search", sandbox_id=box, path="/work", pattern="*.txt")
        assert [entry["path"] for entry in found["result"]] == ["/work/notes/one.txt"]
        replaced = await agent.call("file_replace_contents", sandbox_id=box, entries=[{"path": "/work/notes/one.txt", "old_content": "second", "new_content": "2nd"}])
        assert [entry["replaced_count"] for entry in replaced["result"]] == [1]
        await agent.call("file_move", sandbox_id=box, entries=[{"source": "/work/notes/one.txt", "destination": "/work/two.txt"}])
        assert await agent.command(box, "cat two.txt; ls notes") == (0, "first|2nd ä", "")
        await agent.call("file_delete", sandbox_id=box, paths=["/work/two.txt"])
        await agent.call("file_delete_directories", sandbox_id=box, paths=["/work/notes"])
        assert await agent.command(box, "ls") == (0, "", "")

        background = await agent.call("command_run", sandbox_id=box, command="sleep 600", background=True)
        await agent.call("command_interrupt", sandbox_id=box, execution_id=background["id"])
        assert (await agent.call("sandbox_get_metrics", sandbox_id=box))["cpu_count"] > 0
        assert (await agent.call("sandbox_healthcheck", sandbox_id=box))["healthy"] is True
        await agent.call("sandbox_renew", sandbox_id=box, timeout_seconds=900)
        assert box in (await agent.call("sandbox_get_endpoint", sandbox_id=box, port=8000))["endpoint"]
        await agent.call("sandbox_kill", sandbox_id=box)
        assert "SANDBOX::NOT_FOUND" in await agent.refused("sandbox_get_info", sandbox_id=box)

    run(work)


DENIED_CREATES = [
    ({}, "The network must be closed by default"),
    ({"network_policy": CLOSED | {"egress": [{"action": "allow", "target": DENIED}]}}, "Egress may only be allowed to these targets"),
    ({"network_policy": CLOSED, "image": "nobody/has:this"}, "sandboxd image import"),
    ({"network_policy": CLOSED, "env": {"LD_PRELOAD": "/work/x"}}, "LD_PRELOAD"),
    ({"network_policy": CLOSED, "extensions": {"sandboxd.securityContext": '{"privileged": true}'}}, "rivileged"),
]


def test_a_denied_sandbox_says_why():
    """An agent is told what policy says, so that it can ask for less."""

    async def work(agent: Agent):
        for arguments, reason in DENIED_CREATES:
            said = await agent.refused("sandbox_create", **({"image": "host", "metadata": {"agent": "denied"}} | arguments))
            assert "SANDBOX::POLICY_DENIED" in said and reason in said
            assert os.environ["OPEN_SANDBOX_API_KEY"] not in said
            assert (await agent.call("sandbox_list", filter={"metadata": {"agent": "denied"}}))["pagination"]["total_items"] == 0

    run(work)


def test_what_is_refused_inside_says_why():
    """A file and a port outside of what a sandbox has, and a command beyond its policy."""

    async def work(agent: Agent):
        box = (await agent.call("sandbox_create", image="host", network_policy=CLOSED))["sandbox_id"]
        assert "FILE_NOT_FOUND" in await agent.refused("file_read", sandbox_id=box, path="/etc/shadow-")
        assert "the file system is read-only" in await agent.refused("file_write", sandbox_id=box, path="/etc/passwd", content="x")
        assert (await agent.command(box, "echo x >/etc/passwd"))[0] == 1
        code, _, error = await agent.command(box, f"curl -sS -m 20 http://{ALLOWED}/")
        assert code == 7 and "connect to" in error
        await agent.call("sandbox_kill", sandbox_id=box)

    run(work)


def test_the_newest_server():
    """It keeps what it didn't foresee from the agent; who runs it finds the reason in its log. The rest works."""

    async def work(agent: Agent):
        assert await agent.refused("sandbox_create", image="host") == "Error executing tool sandbox_create"
        box = (await agent.call("sandbox_create", image="host", network_policy=CLOSED))["sandbox_id"]
        assert await agent.command(box, "echo here") == (0, "here", "")
        await agent.call("sandbox_kill", sandbox_id=box)

    log = run(work, NEWEST)
    assert "[SANDBOX::POLICY_DENIED]" in log and "The network must be closed by default" in log
