# Asks the client's own parser. stdin: a JSON list of [stdout, clean, value, found, failed], the last four what our parser said; stdout: what differs.
import importlib.util
import json
import sys

spec = importlib.util.spec_from_file_location("protocol", sys.argv[1])
protocol = importlib.util.module_from_spec(spec)
spec.loader.exec_module(protocol)


def finite(value):
    # Our value is JSON, where the client has tokens that aren't; 1e999 is a number in both and no token.
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, list):
        return [finite(v) for v in value]
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    return value


for text, clean, value, found, failed in json.load(sys.stdin):
    if protocol.has_result_marker(text) != found:
        print("found", found, ascii(text)[:400])
        continue
    sys.setrecursionlimit(1000)
    try:
        want_clean, want = protocol.parse_result_marker(text)
    except (ValueError, RecursionError) as error:
        # It fails at an integer that is too long, also where what follows isn't JSON; ours finds either first, and has no value.
        if not failed and value != "null":
            print(type(error).__name__, ascii(text)[:400])
        continue
    sys.setrecursionlimit(10000)
    if want_clean != clean:
        print("clean", ascii(clean)[:400], "want", ascii(want_clean)[:400], "of", ascii(text)[:400])
    # Beyond the depth at which some versions fail ours fails on all of them.
    elif not failed and json.dumps(finite(json.loads(value))) != json.dumps(finite(want)):
        print("value", value[:400], "want", ascii(want)[:400], "of", ascii(text)[:400])
