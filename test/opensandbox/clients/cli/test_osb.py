"""OpenSandbox's command line, unmodified: what a person types. It reads OPEN_SANDBOX_DOMAIN and OPEN_SANDBOX_API_KEY by itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import uuid
from dataclasses import dataclass

import pytest
from click.testing import CliRunner
from opensandbox_cli.main import cli

ALLOWED, DENIED = os.environ["SANDBOXD_TEST_ALLOWED"], os.environ["SANDBOXD_TEST_DENIED"]


@dataclass
class Run:
    returncode: int
    stdout: str
    stderr: str


def osb(*words: str, stdin: str | None = None) -> Run:
    """One command, by the program's own entry point: a process of its own for each would take most of the test's time."""
    result = CliRunner().invoke(cli, ["--no-color", *words], input=stdin, prog_name="osb")
    return Run(result.exit_code, result.stdout, result.stderr)


def done(*words: str, stdin: str | None = None) -> str:
    """What a command prints that must succeed."""
    run = osb(*words, stdin=stdin)
    assert run.returncode == 0, (words, run.stdout, run.stderr)
    return run.stdout


def answer(*words: str):
    at = words.index("--") if "--" in words else len(words)
    return json.loads(done(*words[:at], "-o", "json", *words[at:]))


def refused(*words: str) -> str:
    """What a command says on stderr that must fail."""
    run = osb(*words)
    assert run.returncode == 1, (words, run.stdout, run.stderr)
    return " ".join(run.stderr.split())


def write_policy(path, *targets: str, default: str = "deny") -> str:
    path.write_text(json.dumps({"defaultAction": default, "egress": [{"action": "allow", "target": target} for target in targets]}))
    return str(path)


MARK = uuid.uuid4().hex


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    """A sandbox that one host may be reached from."""
    policy = write_policy(tmp_path_factory.mktemp("policy") / "network.json", ALLOWED)
    made = answer(
        "sandbox", "create", "--image", "host", "--network-policy-file", policy, "--timeout", "10m", "--env", "COLOUR=green",
        "--metadata", f"mark={MARK}", "--resource", "cpu=500m", "--resource", "memory=256Mi",
        "--entrypoint", "sh", "--entrypoint", "-c", "--entrypoint", "echo entered; sleep infinity",
    )  # fmt: skip
    yield made["id"]
    osb("sandbox", "kill", made["id"])


def test_create_list_get(box):
    assert [item["id"] for item in answer("sandbox", "list", "--metadata", f"mark={MARK}", "--state", "Running")["items"]] == [box]
    got = answer("sandbox", "get", box)
    assert (got["status"]["state"], got["image"]["image"], got["metadata"]) == ("Running", "host", {"mark": MARK})
    assert "healthy" in done("sandbox", "health", box)
    metrics = answer("sandbox", "metrics", box)
    assert (metrics["cpu_count"], metrics["memory_total_in_mib"]) == (0.5, 256)
    assert answer("sandbox", "renew", box, "--timeout", "20m")["sandbox_id"] == box
    assert f"/v1/sandboxes/{box}/proxy/8000" in answer("sandbox", "endpoint", box, "--port", "8000")["endpoint"]


def test_commands(box):
    run = osb("command", "run", box, "--workdir", "/tmp", "--", "sh", "-c", "echo $COLOUR in $PWD; echo warned >&2; exit 7")
    assert (run.returncode, run.stdout) == (1, "green in /tmp\n")
    assert "warned" in run.stderr and "CommandExecError: 7" in run.stderr
    assert done("command", "run", box, "--argv", "--", "echo", "$COLOUR", "a  b") == "$COLOUR a  b\n"
    assert "CommandTimeout" in refused("command", "run", box, "--timeout", "1s", "--", "sleep", "600")


def test_a_command_in_the_background(box):
    started = answer("command", "run", box, "--background", "--", "sh", "-c", "echo begun; exec sleep 600")["execution_id"]
    while done("command", "logs", box, started, "-o", "raw") != "begun\n\n":
        pass  # polls until the line has come
    assert answer("command", "status", box, started)["running"] is True
    done("command", "interrupt", box, started)
    while (status := answer("command", "status", box, started))["running"]:
        pass  # polls until it has ended
    assert status["exit_code"] == -1


def test_a_session(box):
    session = answer("command", "session", "create", box, "--workdir", "/tmp")["session_id"]
    done("command", "session", "run", box, session, "--", "export", "KEPT=yes")
    assert done("command", "session", "run", box, session, "--", "sh", "-c", "echo $KEPT $PWD") == "yes /tmp\n"
    done("command", "session", "delete", box, session)


def test_files(box, tmp_path):
    """A file there and back byte for byte, and everything else that may be done to one."""
    content = os.urandom(3 << 20)
    (tmp_path / "sent").write_bytes(content)
    done("file", "mkdir", box, "/work/d")
    done("file", "upload", box, str(tmp_path / "sent"), "/work/d/bytes")
    done("file", "download", box, "/work/d/bytes", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == content
    done("file", "write", box, "/work/d/note", "--mode", "0640", stdin="one two\n")
    done("file", "replace", box, "/work/d/note", "--old", "two", "--new", "2")
    done("file", "chmod", box, "/work/d/note", "--mode", "0600")
    done("file", "mv", box, "/work/d/note", "/work/d/moved")
    assert done("file", "cat", box, "/work/d/moved").rstrip("\n") == "one 2"
    (info,) = answer("file", "info", box, "/work/d/moved")
    assert (info["size"], info["mode"], info["owner"]) == (6, 600, "sandbox")
    assert [entry["path"] for entry in answer("file", "search", box, "/work", "--pattern", "mo*")] == ["/work/d/moved"]
    done("file", "rm", box, "/work/d/moved")
    assert "FILE_NOT_FOUND" in refused("file", "cat", box, "/work/d/moved")
    done("file", "rmdir", box, "/work/d")


def reaches(box: str, host: str) -> str:
    run = osb("command", "run", box, "--", "curl", "-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", f"http://{host}/")
    return run.stdout.strip() if run.returncode == 0 else run.stderr


def test_egress(box):
    rule = {"action": "allow", "target": ALLOWED}
    assert answer("egress", "get", box) == {"default_action": "deny", "egress": [rule]}
    assert reaches(box, ALLOWED) == "200"
    assert re.search("reset by peer|connect to server", reaches(box, DENIED))
    done("egress", "patch", box, "--rule", f"deny={ALLOWED}")
    assert re.search("reset by peer|connect to server", reaches(box, ALLOWED))
    done("egress", "patch", box, "--rule", f"allow={ALLOWED}")
    assert reaches(box, ALLOWED) == "200"
    said = refused("egress", "patch", box, "--rule", f"allow={DENIED}")
    assert "SANDBOX::POLICY_DENIED" in said and "may only be allowed to these targets" in said
    assert answer("egress", "get", box) == {"default_action": "deny", "egress": [rule]}


def test_diagnostics(box):
    """What the sandbox is, read back now; what has happened to it; what its entrypoint says."""
    assert "entered" in done("diagnostics", "logs", box, "--scope", "container")
    events = done("diagnostics", "events", box, "--scope", "runtime")
    assert re.search(r"^\S+Z created from image host", events)
    assert re.search(r"network changed: .*" + re.escape(ALLOWED), events)
    assert re.search(r"network refused: .*may only be allowed to these targets", events)
    inspected = done("devops", "inspect", box)
    assert f"id: {box}\n" in inspected and "state: Running\n" in inspected
    held = re.search(r"^held: true, (\d+) rows, read back \S+Z, record \d+$", inspected, re.MULTILINE)
    assert held, inspected
    assert int(held[1]) > 20
    assert len(re.findall(r"^  held  +kernel  +", inspected, re.MULTILINE)) > 20
    summary = done("devops", "summary", box)
    for part in ("id: " + box, "created from image host", "entered"):
        assert part in summary
    assert "scope" in refused("diagnostics", "logs", box, "--scope", "node")


def test_pause_and_resume(box):
    done("sandbox", "pause", box)
    assert answer("sandbox", "get", box)["status"]["state"] == "Paused"
    done("sandbox", "resume", box)
    assert done("command", "run", box, "--", "echo", "on") == "on\n"


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        ([], "SANDBOX::POLICY_DENIED", "The network must be closed by default"),
        (["--network-policy-file", "target"], "SANDBOX::POLICY_DENIED", "may only be allowed to these targets"),
        (["--network-policy-file", "closed", "--image", "nobody/has:this"], "SANDBOX::POLICY_DENIED", "sandboxd image import"),
        (["--network-policy-file", "closed", "--env", "LD_PRELOAD=/work/x"], "SANDBOX::POLICY_DENIED", "LD_PRELOAD"),
        (["--network-policy-file", "closed", "--resource", "gpu=1"], "SANDBOX::OPTION_NOT_SUPPORTED", "resourceLimits.gpu"),
        (["--network-policy-file", "closed", "--credential-proxy"], "SANDBOX::OPTION_NOT_SUPPORTED", "credentialProxy"),
        (["--snapshot-id", "none"], "SANDBOX::OPTION_NOT_SUPPORTED", "snapshotId"),
    ],
    ids=["open", "target", "image", "variable", "gpu", "vault", "snapshot"],
)
def test_a_denied_create_says_why(words, code, reason, tmp_path):
    policies = {"target": write_policy(tmp_path / "target.json", DENIED), "closed": write_policy(tmp_path / "closed.json")}
    words = [policies.get(word, word) for word in words]
    image = [] if "--image" in words or "--snapshot-id" in words else ["--image", "host"]
    said = refused("sandbox", "create", *image, *words)
    assert f"[{code}]" in said and reason in said
    assert os.environ["OPEN_SANDBOX_API_KEY"] not in said


def test_the_program_itself(tmp_path):
    """Create, run, kill as a person types them; what a command writes arrives as it is."""

    def typed(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run(["osb", *words], capture_output=True, text=True, timeout=50, check=False)

    policy = write_policy(tmp_path / "closed.json")
    made = json.loads(typed("sandbox", "create", "--image", "host", "--network-policy-file", policy, "-o", "json").stdout)["id"]
    run = typed("command", "run", made, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (run.returncode, run.stdout) == (1, "out\n") and run.stderr.startswith("err") and "CommandExecError: 3" in run.stderr
    assert typed("sandbox", "kill", made).returncode == 0
    gone = typed("sandbox", "get", made)
    assert gone.returncode == 1 and "SANDBOX::NOT_FOUND" in gone.stderr


def test_what_is_not_served_says_so(box):
    for words in (["snapshot", "create", box], ["snapshot", "list"], ["template", "list"]):
        assert "SANDBOX::API_NOT_SUPPORTED" in refused(*words)
    assert "404" in refused("credential-vault", "get", box)
