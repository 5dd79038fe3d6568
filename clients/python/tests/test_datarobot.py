"""With datarobot_genai installed: the class is its protocol's, and what it raises are its errors."""

import asyncio

import pytest

contract = pytest.importorskip("datarobot_genai.drtools.core.sandbox")

from sandboxd.datarobot import SandboxdSandbox  # noqa: E402


def test_protocol(socket):
    assert isinstance(SandboxdSandbox(socket), contract.Sandbox)
    result = asyncio.run(SandboxdSandbox(socket, security_context=contract.SandboxSecurityContext()).run("_return = 6 * 7"))
    assert isinstance(result, contract.SandboxResult) and result.return_value == 42 and result.exit_code == 0


def test_errors(socket):
    with pytest.raises(contract.SandboxTimeout) as raised:
        asyncio.run(SandboxdSandbox(socket).run("while True: pass", timeout_s=0.5))
    assert contract.classify_outcome(raised.value) == ("failure", "timeout")
    with pytest.raises(contract.SandboxInfraError) as raised:
        asyncio.run(SandboxdSandbox(socket + ".nobody").run("pass"))
    assert contract.classify_outcome(raised.value) == ("failure", "infra")


def test_instrumented(socket):
    result = asyncio.run(contract.InstrumentedSandbox(SandboxdSandbox(socket)).run("_return = 1"))
    assert result.return_value == 1
