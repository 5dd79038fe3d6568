"""What a run gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class SandboxResult:
    """The result of code that ran, whatever came of it.

    ``return_value`` is what the code left in ``_return``; ``exit_code`` is 0 for success, 128 + n for a death by signal n; ``duration_s`` is the daemon's
    own measurement in seconds; ``reply`` is the daemon's whole answer, with decision, verdict and audit sequence.
    """

    stdout: str
    stderr: str
    return_value: Any
    duration_s: float
    exit_code: int
    reply: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
