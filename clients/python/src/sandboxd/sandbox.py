"""The client: one request of ``POST /v1/run`` for each run."""

from __future__ import annotations

import base64
import json
import os
from typing import Any, AsyncIterator, Mapping

import httpx

from sandboxd import errors
from sandboxd.result import SandboxResult

# What a run may take besides its own time: a place in the daemon's queue, a sandbox, and the answer's way.
_MARGIN_S = 60.0

# How much of long inputs is encoded and sent at a time.
_PIECE = 1 << 20

# Outcomes of code that ran and ended. The others have no result.
_RAN = frozenset({"ok", "error", "signaled", "oom", "output_limit", "not_started"})


def default_socket() -> str:
    """Where ``sandboxd serve`` listens: ``$SANDBOXD_SOCKET``, or its own default."""
    chosen = os.environ.get("SANDBOXD_SOCKET")
    if chosen:
        return chosen
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.geteuid() != 0 and os.path.isabs(runtime):
        return os.path.join(runtime, "sandboxd", "sandboxd.sock")
    return "/run/sandboxd/sandboxd.sock"


class SandboxdSandbox:
    """Runs code in fresh sandboxes of a local sandboxd. It implements DataRobot's ``Sandbox`` protocol.

    ``security_context``, ``network`` and ``limits`` are as in the API; the daemon's policy decides about them, and absent ones are the most restrictive.
    ``limits`` has no ``timeoutSeconds``: that is ``run``'s ``timeout_s``.
    """

    _result: type[Any] = SandboxResult
    _error: type[Any] = errors.SandboxError
    _timeout: type[Any] = errors.SandboxTimeout
    _infra: type[Any] = errors.SandboxInfraError

    def __init__(
        self,
        socket: str | None = None,
        *,
        security_context: Mapping[str, Any] | None = None,
        network: Mapping[str, Any] | None = None,
        limits: Mapping[str, Any] | None = None,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        if limits is not None and "timeoutSeconds" in limits:
            raise ValueError("limits.timeoutSeconds: say timeout_s in run")
        self._socket = socket or default_socket()
        self._client = client
        self._fixed: dict[str, Any] = {
            name: dict(value)
            for name, value in (("securityContext", security_context), ("network", network), ("limits", limits))
            if value is not None
        }

    async def run(
        self,
        code: str,
        *,
        inputs: dict[str, Any] | None = None,
        externals: dict[str, Any] | None = None,
        timeout_s: float = 30.0,
    ) -> Any:
        """Run Python ``code`` with ``inputs`` bound, for at most ``timeout_s`` seconds, and give its :class:`SandboxResult`.

        Raises ``SandboxTimeout`` when the time is over, ``SandboxError`` when policy denies the run, ``SandboxInfraError`` when sandboxd couldn't be
        reached or failed, ``NotImplementedError`` for ``externals``, ``ValueError`` or ``TypeError`` for inputs that JSON can't hold.
        """
        if externals:
            raise NotImplementedError("externals: functions of the caller can't be called from a sandbox")
        body = self._body(code, inputs, timeout_s)
        answer = await self._post(body, timeout_s + _MARGIN_S)
        return self._take(self._decode(answer), answer.status_code, timeout_s)

    def _body(self, code: str, inputs: dict[str, Any] | None, timeout_s: float) -> AsyncIterator[bytes]:
        code.encode()  # lone surrogates: UnicodeEncodeError before any request
        request = {"code": code, "timeoutSeconds": timeout_s, **self._fixed}
        return _pieces(json.dumps(request, allow_nan=False), json.dumps(inputs or {}, allow_nan=False))

    async def _post(self, body: AsyncIterator[bytes], timeout_s: float) -> httpx.Response:
        headers = {"Content-Type": "application/json"}
        try:
            if self._client is not None:
                return await self._client.post("http://sandboxd/v1/run", content=body, headers=headers, timeout=timeout_s)
            transport = httpx.AsyncHTTPTransport(uds=self._socket)
            async with httpx.AsyncClient(transport=transport, timeout=timeout_s, trust_env=False) as client:
                return await client.post("http://sandboxd/v1/run", content=body, headers=headers)
        except httpx.HTTPError as cause:
            raise self._infra(f"sandboxd at {self._socket}: {type(cause).__name__}: {cause}") from cause

    def _decode(self, answer: httpx.Response) -> dict[str, Any]:
        try:
            reply = json.loads(answer.content)
        except (ValueError, RecursionError) as cause:
            raise self._infra(f"sandboxd answered {answer.status_code} and no JSON: {answer.content[:200]!r}") from cause
        if not isinstance(reply, dict):
            raise self._infra(f"sandboxd answered {answer.status_code} and no JSON object")
        return reply

    def _take(self, reply: dict[str, Any], status: int, timeout_s: float) -> Any:
        outcome = reply.get("outcome")
        if not isinstance(outcome, str):  # an error of the API: nothing was judged or run
            text = ": ".join(str(reply[key]) for key in ("code", "field", "message") if reply.get(key))
            kind = self._error if 400 <= status < 500 and status not in (401, 429) else self._infra
            raise self._raise(kind, text or f"sandboxd answered {status}", reply)
        if outcome in _RAN:
            return self._ended(outcome, reply)
        if outcome == "timeout":
            raise self._raise(self._timeout, f"the code did not end within {timeout_s} s", reply)
        if outcome == "denied":
            raise self._raise(self._error, "denied: " + "; ".join(_reasons(reply)), reply)
        raise self._raise(self._infra, f"{outcome}: {reply.get('message') or 'no reason was given'}", reply)

    def _raise(self, kind: type[Any], message: str, reply: dict[str, Any]) -> Any:
        exit_code = 124 if kind is self._timeout else reply.get("exitCode")
        error = kind(message, exit_code=exit_code, stderr=_output(reply, "stderr"))
        error.stdout, error.reply = _output(reply, "stdout"), reply
        return error

    def _ended(self, outcome: str, reply: dict[str, Any]) -> Any:
        stderr = _output(reply, "stderr")
        exit_code = reply.get("exitCode")
        if exit_code is None:
            signal = reply.get("signal")
            if outcome == "output_limit":
                exit_code = 125
            elif outcome == "oom":
                exit_code = 137
            elif signal is not None:
                exit_code = 128 + signal
            else:  # never 0 for want of a status
                raise self._raise(self._infra, f"{outcome} without an exit status", reply)
        if outcome == "oom" and "OOMKilled" not in stderr:  # the daemon says it, in the stderr of a run
            stderr += ("" if not stderr or stderr.endswith("\n") else "\n") + "OOMKilled\n"
        if outcome == "not_started" and reply.get("message"):
            stderr += str(reply["message"]) + "\n"
        result = self._result(
            stdout=_output(reply, "stdout"),
            stderr=stderr,
            return_value=reply.get("returnValue"),
            duration_s=float(reply.get("durationSeconds") or 0.0),
            exit_code=int(exit_code),
        )
        result.reply = reply
        return result


async def _pieces(request: str, inputs: str) -> AsyncIterator[bytes]:
    """The body in pieces, with the inputs as the last member: long ones are never joined with the rest, nor encoded at once. Both are ASCII."""
    yield request[:-1].encode() + b',"inputs":'
    for begin in range(0, len(inputs), _PIECE):
        yield inputs[begin : begin + _PIECE].encode()
    yield b"}"


def _output(reply: dict[str, Any], stream: str) -> str:
    """A stream's text. Bytes that aren't UTF-8 are replaced here; ``reply`` has them all."""
    text = reply.get(stream)
    if isinstance(text, str):
        return text
    encoded = reply.get(stream + "Base64")
    return base64.b64decode(encoded).decode(errors="replace") if isinstance(encoded, str) else ""


def _reasons(reply: dict[str, Any]) -> list[str]:
    reasons = reply.get("reasons") or (reply.get("decision") or {}).get("reasons") or []
    texts = [" ".join(str(reason[key]) for key in ("field", "message") if reason.get(key)) for reason in reasons]
    return texts or [str(reply.get("message") or "no reason was given")]
