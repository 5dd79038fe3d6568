"""OpenSandbox's code-interpreter SDK, unmodified, against a daemon: both of its clients, and on the wire what they don't show."""

import asyncio
import base64
import json
import os
import struct
import threading

import httpx
import pytest
from code_interpreter import CodeInterpreter, CodeInterpreterSync
from code_interpreter.models.code_sync import CodeContextSync
from opensandbox import Sandbox, SandboxSync
from opensandbox.config import ConnectionConfig, ConnectionConfigSync
from opensandbox.exceptions import SandboxException
from opensandbox.models.execd_sync import ExecutionHandlersSync
from opensandbox.models.sandboxes import NetworkPolicy

ADDRESS, KEY = os.environ["SANDBOXD_OPENSANDBOX_ADDRESS"], os.environ["SANDBOXD_OPENSANDBOX_API_KEY"]
# The environment whose packages the sandboxes are shown.
PACKAGES = os.environ["SANDBOXD_TEST_PACKAGES"]
OPTIONS = {"network_policy": NetworkPolicy(defaultAction="deny"), "env": {"PATH": PACKAGES + "/bin:/usr/local/bin:/usr/bin:/bin"}}
CONNECTION = {"domain": ADDRESS, "protocol": "http", "api_key": KEY}


@pytest.fixture(scope="module")
def box():
    made = SandboxSync.create("host", connection_config=ConnectionConfigSync(**CONNECTION), **OPTIONS)
    yield made
    made.kill()
    made.close()


@pytest.fixture(scope="module")
def codes(box):
    # Its health check connects to a port of the sandbox, and policy lets nothing of this one connect anywhere.
    with CodeInterpreterSync.create(box, skip_health_check=True) as interpreter:
        yield interpreter.codes


@pytest.fixture
def context(codes):
    made = codes.create_context("python")
    yield made
    try:
        codes.delete_context(made.id)
    except SandboxException:
        pass  # its test has ended it


def out(execution):
    return [message.text for message in execution.logs.stdout]


def events(box, code, context):
    """What is on the wire: the SDK keeps of a result its text alone."""
    endpoint = box.get_endpoint(44772)
    answer = httpx.post(
        f"http://{endpoint.endpoint}/code", headers=endpoint.headers, timeout=60,
        json={"code": code, "context": {"id": context.id, "language": context.language}},
    )
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream"), answer.text
    return [json.loads(frame) for frame in answer.text.split("\n\n") if frame]


def test_state_is_kept(codes, context):
    first = codes.run("import math\nx = math.floor(41.5)\nprint('one')\nprint('two')", context=context)
    assert out(first) == ["one", "two"] and first.error is None and first.complete is not None and first.execution_count == 1 and first.id == context.id
    second = codes.run("x + 1", context=context)
    assert [result.text for result in second.result] == ["42"] and second.execution_count == 2 and not second.logs.stderr
    assert [result.text for result in codes.run("'here'", language="python").result] == ["'here'"]
    assert codes.run("x", language="python").error.name == "NameError"


def test_an_exception_is_the_end(codes, context):
    failed = codes.run("print('before')\n1 / 0\nprint('after')", context=context)
    assert out(failed) == ["before"] and failed.complete is None
    assert failed.error.name == "ZeroDivisionError" and failed.error.value == "division by zero"
    assert failed.error.traceback[0] == "Traceback (most recent call last):" and failed.error.traceback[-1] == "ZeroDivisionError: division by zero"
    assert any('File "<cell 1>", line 2' in line for line in failed.error.traceback)


def test_events_come_as_they_happen(codes, context):
    seen, go = [], threading.Event()
    codes.run("import os, time\nf = open('/tmp/go', 'w')", context=context)

    def on_stdout(message):
        seen.append(message.text)
        if message.text == "begun":
            codes.run("open('/tmp/gone', 'w').close()", language="python")  # which the cell waits for

    ended = codes.run(
        "print('begun')\nwhile not os.path.exists('/tmp/gone'): time.sleep(0.01)\nprint('ended')", context=context,
        handlers=ExecutionHandlersSync(on_init=lambda init: seen.append(init.id), on_stdout=on_stdout, on_execution_complete=lambda complete: go.set()),
    )
    assert seen == [context.id, "begun", "ended"] and go.is_set() and ended.error is None


def test_contexts(codes):
    codes.delete_contexts("python")
    assert codes.list_contexts("python") == []
    one, two = codes.create_context("python"), codes.create_context("python")
    assert {c.id for c in codes.list_contexts("python")} == {one.id, two.id}
    assert codes.get_context(one.id).language == "python"
    codes.delete_context(one.id)
    for call in (lambda: codes.get_context(one.id), lambda: codes.delete_context(one.id), lambda: codes.interrupt(one.id), lambda: codes.run("1", context=one)):
        with pytest.raises(SandboxException, match="no code context"):
            call()
    codes.delete_contexts("python")
    assert codes.list_contexts("python") == []


def test_other_languages_are_refused(codes):
    with pytest.raises(SandboxException, match="java.*no code contexts here"):
        codes.create_context("java")
    with pytest.raises(SandboxException, match="bash.*no code contexts here"):
        codes.run("echo 1", language="bash")
    with pytest.raises(SandboxException, match="no code context"):
        codes.run("1", context=CodeContextSync(id="0" * 32, language="python"))


def test_interrupt(codes, context):
    codes.run("kept = 1", context=context)
    begun = ExecutionHandlersSync(on_stdout=lambda message: codes.interrupt(context.id))
    ended = codes.run("print('begun')\nimport time\nwhile True: time.sleep(0.01)", context=context, handlers=begun)
    assert ended.error.name == "KeyboardInterrupt" and ended.complete is None
    assert codes.run("kept", context=context).result[0].text == "1"


def test_an_interpreter_that_ends_takes_its_context_along(codes, context):
    ended = codes.run("import os\nprint('last', flush=True)\nos._exit(3)", context=context)
    assert out(ended) == ["last"] and ended.error.name == "InterpreterEnded" and ended.error.value.startswith("exit status 3")
    with pytest.raises(SandboxException, match="no code context"):
        codes.run("1", context=context)


def test_files_and_commands_are_the_same_sandbox(box, codes, context):
    box.files.write_file("/work/mine.py", "answer = 42")
    assert codes.run("import mine\nopen('/work/said', 'w').write(str(mine.answer)); mine.answer", context=context).result[0].text == "42"
    assert box.files.read_file("/work/said") == "42"
    told = codes.run("import subprocess\nprint(subprocess.run(['cat', 'said'], capture_output=True, text=True).stdout)", context=context)
    assert out(told)[0] == "42"


def test_it_is_confined(codes, context):
    status = out(codes.run("print(open('/proc/self/status').read())", context=context))
    assert {"NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000"} <= set(status)
    refused = codes.run("import socket\nsocket.create_connection(('192.0.2.1', 80), 5)", context=context)
    assert refused.error.name in ("PermissionError", "ConnectionRefusedError"), refused.error


def test_tables(box, codes, context):
    assert codes.run("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\ndf", context=context).result[0].text == "   a\n0  1\n1  2"
    shown = [event["results"] for event in events(box, "df", context) if event["type"] == "result"]
    assert len(shown) == 1 and "<table" in shown[0]["text/html"] and shown[0]["text/plain"] == shown[0]["text"] == "   a\n0  1\n1  2"


def size(png):
    data = base64.b64decode(png)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", data[16:24])


def test_figures(box, codes, context):
    codes.run("import matplotlib.pyplot as plt\nplt.figure(); plt.close()", context=context)  # the first time it looks for fonts, and says so
    shown = codes.run("plt.plot([1, 2, 3]);", context=context)
    assert shown.error is None and [result.text for result in shown.result] == ["<Figure size 640x480 with 1 Axes>"] and not shown.logs.stderr, shown
    told = events(box, "plt.plot([1]); plt.show(); print('between'); fig, ax = plt.subplots(figsize=(2, 1)); ax.plot([2])\nlen(plt.get_fignums())", context)
    told = [event for event in told if event["type"] in ("stdout", "stderr", "result")]
    assert [event["type"] for event in told] == ["result", "stdout", "result", "result"], told
    first, _, value, last = told
    assert value["results"]["text"] == "1"  # the first was shown, and so is closed
    assert size(first["results"]["image/png"])[0] > 400 and size(last["results"]["image/png"])[0] < 300
    assert codes.run("plt.get_fignums()", context=context).result[0].text == "[]"
    once = events(box, "fig = plt.figure(); fig", context)
    assert [sorted(event["results"]) for event in once if event["type"] == "result"] == [["image/png", "text", "text/plain"]]
    failed = events(box, "plt.plot([1])\n1 / 0", context)
    assert [event["type"] for event in failed[2:]] == ["result", "error"] and failed[-1]["error"]["ename"] == "ZeroDivisionError"


def test_the_asynchronous_client():
    async def use():
        box = await Sandbox.create("host", connection_config=ConnectionConfig(**CONNECTION), **OPTIONS)
        async with await CodeInterpreter.create(box, skip_health_check=True) as interpreter:
            assert await interpreter.ping()
            contexts = await asyncio.gather(*(interpreter.codes.create_context("python") for _ in range(3)))
            await asyncio.gather(*(interpreter.codes.run(f"n = {n}", context=context) for n, context in enumerate(contexts)))
            told = await asyncio.gather(*(interpreter.codes.run("n", context=context) for context in contexts))
            # And one after another in one context.
            queued = await asyncio.gather(*(interpreter.codes.run("n += 1; n", context=contexts[0]) for _ in range(4)))
        await box.kill()
        await box.close()
        return [execution.result[0].text for execution in told], sorted(execution.result[0].text for execution in queued)

    assert asyncio.run(use()) == (["0", "1", "2"], ["1", "2", "3", "4"])
