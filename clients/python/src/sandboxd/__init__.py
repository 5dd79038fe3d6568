"""Run Python code that nobody trusts in a sandbox of sandboxd, and get the proof with the result."""

from sandboxd.errors import SandboxError, SandboxInfraError, SandboxTimeout
from sandboxd.result import SandboxResult
from sandboxd.sandbox import SandboxdSandbox

__all__ = ["SandboxError", "SandboxInfraError", "SandboxResult", "SandboxTimeout", "SandboxdSandbox"]
