import os

import pytest

SOCKET = os.environ.get("SANDBOXD_SOCKET", "")


@pytest.fixture
def socket() -> str:
    if not SOCKET:
        pytest.fail("SANDBOXD_SOCKET is not set: these tests want a running daemon")
    return SOCKET
