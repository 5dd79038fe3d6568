"""Without a network: an error at once, which says what failed."""
import time

import requests

began = time.monotonic()
said = []
for url in "https://host.example/", "http://192.0.2.1/", "http://169.254.169.254/latest/meta-data/":
    try:
        requests.get(url, timeout=20)
        raise SystemExit(url + " was answered")
    except requests.exceptions.ConnectionError as error:
        said.append(str(error))
assert "NameResolutionError" in said[0], said
assert all("refused" in text or "denied" in text or "unreachable" in text for text in said[1:]), said
assert time.monotonic() - began < 15, "not at once"
_return = requests.__version__
