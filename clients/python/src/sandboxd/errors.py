"""What a run raises when it has no result."""

from __future__ import annotations

from typing import Any


class SandboxError(Exception):
    """A run without a result: policy denied it, unless a subclass says more.

    ``exit_code`` is the program's status where there is one, ``stdout`` and ``stderr`` its output so far, ``reply`` the daemon's whole answer.
    """

    def __init__(
        self,
        message: str = "",
        *,
        exit_code: int | None = None,
        stderr: str = "",
        stdout: str = "",
        reply: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.stderr = stderr
        self.stdout = stdout
        self.reply = reply


class SandboxTimeout(SandboxError):
    """The time limit was over, and everything the code had started is dead."""


class SandboxInfraError(SandboxError):
    """sandboxd can't be reached, or failed, or what it read back from the kernel wasn't as planned: none of it is the code's doing."""
