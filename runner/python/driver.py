# The driver of `run`: reads a job, runs the code in it, sends back the value of `_return`. CPython 3.9 or newer.
#
# It shares the interpreter with the code that it runs, so nothing here is a control: clock, limits, kill and outcome are the supervisor's. What
# it owes is that honest code finds what it expects, and that broken code doesn't lose its value or change its exit code. So everything that is
# used after the code has run is taken into local names before: the code may replace any module's and any builtin's attributes.
#
# `json` is not imported: with `re` beneath it, that takes longer than everything else here. Its C halves are used as json.loads and
# json.dumps(value, default=str) use them.
#
# argv: job and result descriptor. The job is 8 bytes of length (big endian), the code, then the inputs. The answer is one frame: a letter, 8 bytes
# of length, and the payload: v, the value as JSON; r, its repr as a JSON string; f, why there is none.
import os
import sys


def load(text):
    try:
        from _json import make_scanner

        class Context:
            strict = True
            object_hook = object_pairs_hook = None
            parse_float, parse_int = float, int
            parse_constant = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}.__getitem__
            memo = {}

        scan = make_scanner(Context)
    except Exception:
        from json import loads

        return loads(text)
    text = text.strip(" \t\r\n")
    value, end = scan(text, 0)
    if end != len(text):
        raise ValueError("more than one value in the inputs")
    return value


def encoder(text=str):
    try:
        from _json import encode_basestring_ascii, make_encoder

        def dumps(value):
            if isinstance_(value, text):
                return encode_basestring_ascii(value)
            return join(make_encoder({}, text, encode_basestring_ascii, None, ": ", ", ", False, False, True)(value, 0))

        isinstance_, join = isinstance, "".join
        dumps({"a": [1.5, None, object()]})
    except Exception:
        from json import JSONEncoder

        dumps = JSONEncoder(default=text).encode
    return dumps


def main(job, result):
    # At once, before anything can start a process that inherits it.
    os.set_inheritable(result, False)
    with open(job, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "big")
    source, inputs = data[8 : 8 + size].decode(), load(data[8 + size :].decode())
    del data

    first, getpid, fstat, write, close = os.getpid(), os.getpid, os.fstat, os.write, os.close
    channel = fstat(result).st_dev, fstat(result).st_ino
    dumps, show, out, err = encoder(), sys.__excepthook__, sys.stdout, sys.stderr
    module, text, number, length, kind, representation, is_a = sys, str, int, len, type, repr, isinstance
    get, put, reopen, traceback = getattr, setattr, open, BaseException.__traceback__
    Every, Exit, Wrong = BaseException, SystemExit, (TypeError, ValueError)
    # A child of os.fork never needs it, and holding it open would only keep the reader waiting.
    os.register_at_fork(after_in_child=lambda: close(result) if is_channel() else None)

    def is_channel():
        # The code may have closed the descriptor, and the number may be a file of its own by now.
        try:
            status = fstat(result)
        except Every:
            return False
        return (status.st_dev, status.st_ino) == channel

    def describe(exception):
        try:
            return kind(exception).__name__ + ": " + text(exception)[:400]
        except Every:
            return "an exception that can't be shown"

    def encode(value):
        try:
            try:
                return b"v", dumps(value).encode("ascii")
            except Wrong:
                return b"r", dumps(representation(value)).encode("ascii")
        except Every as exception:
            return b"f", describe(exception).encode("utf-8", "backslashreplace")

    def send(letter, payload):
        if getpid() != first or not is_channel():
            return
        frame = letter + length(payload).to_bytes(8, "big") + payload
        try:
            while frame:
                frame = frame[write(result, frame) :]
            close(result)
        except Every:
            pass

    def without_ours(exception):
        # Takes our own frame off, which is the first.
        frames = traceback.__get__(exception)
        if frames:
            traceback.__set__(exception, frames.tb_next)
        return exception

    def say(line, exception=None):
        # On the real stderr, even where the code closed or replaced the object. What can't be shown isn't, and changes nothing else.
        try:
            stream = reopen(2, "w", 1, "utf-8", "backslashreplace", closefd=False) if err is None or err.closed else err
            stream.write(line)
            if exception is not None:
                module.stderr = stream
                show(kind(exception), exception, traceback.__get__(exception))
        except Every:
            pass

    def fail(exception):
        # Without frames of the code (it didn't compile) the head is missing.
        without_ours(exception)
        say("" if traceback.__get__(exception) else "Traceback (most recent call last):\n", exception)
        return 1

    names = {"inputs": inputs, "_return": None}
    code = 0
    try:
        exec(compile(source, "<sandbox>", "exec", dont_inherit=True), names)
    except Exit as exception:
        try:
            code = without_ours(exception).code
            if code is None:
                code = 0
            elif not is_a(code, number):
                line = text(code) + "\n"
                code = 1
                say(line)
        except Every as failure:
            code = fail(failure)
    except Every as exception:
        code = fail(exception)

    send(*encode(names.get("_return")))

    # The interpreter flushes both at its end, and a failure there would replace the exit code by 120.
    for name, stream in ("stdout", out), ("stderr", err):
        try:
            get(module, name).flush()
        except Every:
            try:
                put(module, name, stream)
                stream.flush()
            except Every:
                put(module, name, None)
    raise Exit(code)


main(*map(int, [sys.argv.pop(1), sys.argv.pop(1)]))
