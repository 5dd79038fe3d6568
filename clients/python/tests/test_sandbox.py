"""Against a running daemon, at $SANDBOXD_SOCKET."""

import asyncio
import math

import httpx
import pytest

from sandboxd import SandboxdSandbox, SandboxError, SandboxInfraError, SandboxTimeout


def run(socket, code, **kwargs):
    arguments = {name: kwargs.pop(name) for name in ("security_context", "network", "limits") if name in kwargs}
    return asyncio.run(SandboxdSandbox(socket, **arguments).run(code, **kwargs))


def test_value_output_and_proof(socket):
    result = run(socket, "print('hi'); import sys; print('oh', file=sys.stderr); _return = {'sum': sum(inputs['xs'])}", inputs={"xs": [1, 2, 3]})
    assert (result.stdout, result.stderr, result.return_value, result.exit_code) == ("hi\n", "oh\n", {"sum": 6}, 0)
    assert result.duration_s > 0
    assert result.reply["verdict"]["held"] is True and result.reply["auditSequence"] > 0


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("_return = 2 ** 200", 2**200),
        ("_return = 1.0", 1.0),
        ("_return = '\\ud83d\\ude00 \\u2028'", "\U0001f600 \u2028"),
        ("_return = inputs", {"a": [None, True, "x" * 1000]}),
        ("_return = float('nan')", None),
        ("pass", None),
        ("raise SystemExit(0)", None),
    ],
)
def test_values(socket, code, value):
    result = run(socket, code, inputs={"a": [None, True, "x" * 1000]})
    assert result.return_value == value and type(result.return_value) is type(value) and result.exit_code == 0


def test_long_inputs_and_value(socket):
    text = "0123456789abcdef\u00e9" * 1_200_000  # 20 MB, more than a body may have beside its inputs
    result = run(socket, "_return = [inputs['text'], len(inputs['text'])]", inputs={"text": text}, timeout_s=60)
    assert result.exit_code == 0 and result.return_value == [text, len(text)]


def test_inputs_that_are_too_long(socket):
    with pytest.raises(SandboxError) as raised:
        run(socket, "pass", inputs={"text": "x" * (257 << 20)}, timeout_s=60)
    assert not isinstance(raised.value, SandboxInfraError)
    assert "TOO_LARGE: inputs: " in str(raised.value) and "more than 268435456 bytes" in str(raised.value)


def test_exception_is_a_result(socket):
    result = run(socket, "_return = 7\nraise ValueError('no')")
    assert result.exit_code == 1 and result.return_value == 7
    assert "ValueError: no" in result.stderr and "line 2" in result.stderr


@pytest.mark.parametrize(("code", "status"), [("import sys; sys.exit(124)", 124), ("import os; os._exit(137)", 137), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_statuses_are_the_code_s_own(socket, code, status):
    assert run(socket, code).exit_code == status


def test_timeout(socket):
    with pytest.raises(SandboxTimeout) as raised:
        run(socket, "print('so far', flush=True)\nwhile True:\n  try:\n    while True: pass\n  except BaseException: pass", timeout_s=0.7)
    assert raised.value.stdout == "so far\n" and raised.value.exit_code == 124 and raised.value.reply["treeEmpty"] is True


def test_denied(socket):
    with pytest.raises(SandboxError) as raised:
        run(socket, "pass", security_context={"privileged": True})
    assert not isinstance(raised.value, (SandboxTimeout, SandboxInfraError))
    assert "privileged" in str(raised.value) and raised.value.reply["outcome"] == "denied"


def test_nothing_goes_out(socket):
    result = run(socket, "import socket\ntry:\n  socket.create_connection(('192.0.2.1', 80), 5)\nexcept OSError as e:\n  _return = e.errno")
    assert isinstance(result.return_value, int)


def test_bad_requests(socket):
    with pytest.raises(SandboxError, match="network"):
        run(socket, "pass", network={"defaultAction": "alow"})
    with pytest.raises(ValueError):
        run(socket, "pass", inputs={"x": math.nan})
    with pytest.raises(TypeError):
        run(socket, "pass", inputs={"x": object()})
    with pytest.raises(UnicodeEncodeError):
        run(socket, "x = '\ud800'")
    with pytest.raises(NotImplementedError):
        run(socket, "pass", externals={"f": print})
    with pytest.raises(ValueError, match="timeout_s"):
        SandboxdSandbox(socket, limits={"timeoutSeconds": 1})


def test_no_daemon(tmp_path):
    with pytest.raises(SandboxInfraError, match="nobody"):
        run(str(tmp_path / "nobody"), "pass")


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b'{"outcome":"surprise"}', b'{"outcome":"error","exitCode":null}', b"{}"])
def test_odd_answers_are_no_results(body):
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body))

    async def ask():
        async with httpx.AsyncClient(transport=transport) as client:
            await SandboxdSandbox(client=client).run("pass")

    with pytest.raises(SandboxInfraError):
        asyncio.run(ask())


def test_many_at_once(socket):
    async def all_of_them():
        sandbox = SandboxdSandbox(socket)
        return await asyncio.gather(*(sandbox.run("_return = inputs['n']", inputs={"n": n}) for n in range(12)))

    assert [result.return_value for result in asyncio.run(all_of_them())] == list(range(12))


def test_cancelled_task_kills(socket):
    async def cancel():
        task = asyncio.create_task(SandboxdSandbox(socket).run("import time; time.sleep(60)", timeout_s=60))
        await asyncio.sleep(1.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        transport = httpx.AsyncHTTPTransport(uds=socket)
        async with httpx.AsyncClient(transport=transport) as client:
            for _ in range(200):
                status = (await client.get("http://sandboxd/v1/status")).json()
                if status["requests"]["running"] == 0:
                    return
                await asyncio.sleep(0.05)
        pytest.fail("it runs on")

    asyncio.run(cancel())
