"""A Dag whose code runs in a sandbox: untrusted Python makes a report of a table, without a network, and only the report comes out.

The sandbox is sandboxd's, by way of Airflow's own OpenSandbox backend: a connection names the server, nothing here knows more of it. README.md says how to
run this.
"""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime

from airflow.providers.common.ai.sandbox import SandboxSpec
from airflow.providers.common.ai.sandbox.opensandbox import OpenSandboxBackend
from airflow.providers.common.ai.toolsets.sandbox import SandboxToolset
from airflow.sdk import ObjectStoragePath, Param, dag, get_current_context, task

ORDERS = "country,amount\nNZ,12.50\nDE,7.25\nNZ,3.00\n"

# Stands for what a model has written: nobody has read it, and it tries the network before it does its work.
UNTRUSTED = """
import collections, csv, json, socket, sys

host, port = sys.argv[1].rsplit(":", 1)
try:
    socket.create_connection((host, int(port)), timeout=10)
    network = "open"
except TimeoutError:
    network = "no answer"
except OSError as e:
    network = f"refused: {e.strerror}"

totals = collections.Counter()
with open("orders.csv") as table:
    for row in csv.DictReader(table):
        totals[row["country"]] += float(row["amount"])
with open("report.json", "w") as report:
    json.dump({"totals": totals, "network": network}, report)
print(f"{len(totals)} countries")
"""

SUMMARISE = """
import json

print(*sorted(json.load(open("report.json"))["totals"]))
"""

BACKEND = OpenSandboxBackend("opensandbox_default", image="host", sandbox_timeout=600)


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["example", "sandbox"],
    params={
        "report_uri": Param("file:///tmp/sandboxd-report.json", type="string", description="where the report goes: anything that ObjectStoragePath opens"),
        "probe": Param("192.0.2.1:443", type="string", description="where the code tries to connect to, and must be refused"),
        "allow": Param([], type="array", description="hosts that the code may reach; each must be one that the server's policy lists"),
    },
)
def sandboxd_report():
    @task
    def run_code(report_uri: str) -> str:
        """Run the code with the backend alone: every step is the task's own, and so is the end of the sandbox."""
        params = get_current_context()["params"]
        sandbox = BACKEND.create(spec=SandboxSpec(allow_egress_to=tuple(params["allow"]) or None))
        try:
            BACKEND.write_file(sandbox, "orders.csv", ORDERS.encode())
            BACKEND.write_file(sandbox, "make_report.py", UNTRUSTED.encode())
            command = f"python3 make_report.py {shlex.quote(params['probe'])}"
            result = BACKEND.run_command(sandbox, command, timeout=60, max_output_bytes=64 * 1024)
            if result.exit_code != 0:
                raise RuntimeError(f"the code failed with {result.exit_code}: {result.stderr}")
            print(f"the code says: {result.stdout.strip()}")
            print(f"the sandbox has: {sorted(name for name, _ in BACKEND.list_directory(sandbox, '.'))}")
            with ObjectStoragePath(report_uri).open("wb") as report:
                size = BACKEND.export_file(sandbox, "report.json", report, max_bytes=1 << 20)
            print(f"exported {size} bytes to {report_uri}")
        finally:
            BACKEND.destroy(sandbox)
        return report_uri

    @task
    async def ask_tools(report_uri: str) -> str:
        """The same by the tools that a model is given: what an agent's run does, without a model."""
        toolset = SandboxToolset(BACKEND, exports={"summary.txt": f"{report_uri}.summary"})
        async with toolset:
            tools = await toolset.get_tools(None)

            async def call(name: str, **arguments):
                return await toolset.call_tool(name, arguments, None, tools[name])

            await call("write_file", path="report.json", content=ObjectStoragePath(report_uri).read_text())
            await call("write_file", path="summarise.py", content=SUMMARISE)
            print(await call("run_command", command="python3 summarise.py >summary.txt; id; grep -E 'NoNewPrivs|Seccomp' /proc/self/status"))
            print(await call("read_file", path="summary.txt"))
        return f"{report_uri}.summary"

    @task
    def check(report_uri: str, summary_uri: str) -> dict:
        """Read what came out, and fail on anything but the truth."""
        report = json.loads(ObjectStoragePath(report_uri).read_text())
        if report["totals"] != {"NZ": 15.5, "DE": 7.25}:
            raise RuntimeError(f"wrong totals: {report['totals']}")
        if not report["network"].startswith("refused"):
            raise RuntimeError(f"the code has reached the network: {report['network']}")
        return {**report, "summary": ObjectStoragePath(summary_uri).read_text().split()}

    report = run_code("{{ params.report_uri }}")
    check(report, ask_tools(report))


sandboxd_report()
