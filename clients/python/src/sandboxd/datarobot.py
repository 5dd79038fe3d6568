"""The same sandbox with the results and errors of ``datarobot_genai``, so that code written for its client swaps the class and nothing else."""

from __future__ import annotations

from datarobot_genai.drtools.core.sandbox.base import (
    SandboxError,
    SandboxInfraError,
    SandboxResult,
    SandboxSecurityContext,
    SandboxTimeout,
)

from sandboxd.sandbox import SandboxdSandbox as _SandboxdSandbox

__all__ = ["SandboxError", "SandboxInfraError", "SandboxResult", "SandboxSecurityContext", "SandboxTimeout", "SandboxdSandbox"]


class SandboxdSandbox(_SandboxdSandbox):
    """:class:`sandboxd.SandboxdSandbox`, with the classes of ``datarobot_genai``. ``security_context`` may be a ``SandboxSecurityContext``."""

    _result = SandboxResult
    _error = SandboxError
    _timeout = SandboxTimeout
    _infra = SandboxInfraError

    def __init__(self, socket=None, *, security_context=None, network=None, limits=None, client=None):  # type: ignore[no-untyped-def]
        if isinstance(security_context, SandboxSecurityContext):
            security_context = security_context.to_workload_api_dict()
        super().__init__(socket, security_context=security_context, network=network, limits=limits, client=client)
