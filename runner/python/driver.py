# The driver of `run`: reads a job, runs the code in it, sends back the value of `_return`. CPython 3.9 or newer.
#
# It shares the interpreter with the code that it runs, so nothing here is a control: clock, limits, kill and outcome are the supervisor's. What
# it owes is that honest code finds what it expects, and that broken code doesn't lose its value or change its exit code. So everything that is
# used after the code has run is taken into local names before: the code may replace any module's and any builtin's attributes.
#
# `json` is not imported: with `re` beneath it, that takes longer than everything else here. Its C halves are used as json.loads and
# json.dumps(value, default=str) use them.
#
# argv: job and result descriptor. The job is 8 bytes each (big endian) of the code's length, of the time limit in milliseconds, and of when it was
# handed over, in milliseconds of CLOCK_BOOTTIME, or 0 for when the process began; then the code, then the inputs. The answer is one frame: a letter, 8 bytes of length, and the payload: v, the value as JSON; r, its repr as a JSON string; f, why
# there is none.
import os
import sys

# The reference's names, which code may ask for.
RESULT_MARKER = "__DR_SANDBOX_RESULT__:"


class _SandboxTimeout(Exception):
    pass


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
        inner = text.strip(" \t\r\n")
        value, end = scan(inner, 0)
        if end == len(inner):
            return value
    except (Exception, StopIteration):
        pass
    # Without the C half; and what isn't JSON gets the reference's own words.
    from json import loads

    return loads(text)


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


def settle(collect=False):
    # What is there by now isn't looked at by any collection to come, that of the interpreter's end above all: it would touch every page, and take as long
    # as all of this driver.
    known = "gc" in sys.modules
    import gc

    if collect:
        gc.collect()
    gc.freeze()
    if not known:
        del sys.modules["gc"]


def main(job, result):
    # At once, before anything can start a process that inherits it.
    os.set_inheritable(result, False)
    first, getpid, fstat, write, close = os.getpid(), os.getpid, os.fstat, os.write, os.close
    channel = fstat(result).st_dev, fstat(result).st_ino
    dumps, show, out, err = encoder(), sys.__excepthook__, sys.stdout, sys.stderr
    module, text, number, length, kind, representation, is_a, view = sys, str, int, len, type, repr, isinstance, memoryview
    get, put, reopen, traceback = getattr, setattr, open, BaseException.__traceback__
    Every, Exit, Late, Wrong = BaseException, SystemExit, _SandboxTimeout, (TypeError, ValueError)
    import _signal
    from time import CLOCK_BOOTTIME, clock_gettime

    setitimer, tick, running = _signal.setitimer, os.sysconf("SC_CLK_TCK"), True
    # A child of os.fork never needs it, and holding it open would only keep the reader waiting.
    os.register_at_fork(after_in_child=lambda: close(result) if is_channel() else None)

    def on_alarm(signum, frame):
        # The limit is the supervisor's, who kills a little later. This gives the code the chance to hand over what it has, once: the alarm is his, or
        # the timer's below, which may come while the code cleans up.
        nonlocal running
        if running:
            running = False
            raise Late("sandbox exceeded timeout of %gs" % limit)

    def is_late():
        # Since the process began, or was handed its job, which is before the supervisor's clock did: an alarm of the code's own comes earlier.
        try:
            if handed:
                return clock_gettime(CLOCK_BOOTTIME) - handed > limit - 0.05
            with reopen("/proc/self/stat", "rb") as stat:
                began = number(stat.read().rpartition(b")")[2].split()[19]) / tick
            return clock_gettime(CLOCK_BOOTTIME) - began > limit - 0.05
        except Every:
            return True

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
        try:
            for part in letter + length(payload).to_bytes(8, "big"), payload:
                part = view(part)
                while part:
                    part = part[write(result, part) :]
            close(result)
        except Every:
            pass

    def without_ours(exception):
        # Takes our own frame off, which is the first.
        frames = traceback.__get__(exception)
        if frames:
            traceback.__set__(exception, frames.tb_next)
        return exception

    def with_source(exception):
        # A traceback with the lines of the code in it, which only package traceback makes. None where that is broken. The source is not registered
        # before: inspect.getsource finds none, as in the reference.
        try:
            import linecache
            from traceback import format_exception

            lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
            linecache.cache["<sandbox>"] = length(source), None, [line + "\n" for line in lines], "<sandbox>"
            return "".join(format_exception(kind(exception), exception, traceback.__get__(exception)))
        except Every:
            return None

    def say(line, exception=None):
        # On the real stderr, even where the code closed or replaced the object. What can't be shown isn't, and changes nothing else.
        try:
            stream = reopen(2, "w", 1, "utf-8", "backslashreplace", closefd=False) if err is None or err.closed else err
            text = None if exception is None else with_source(exception)
            stream.write(line + (text or ""))
            if exception is not None and text is None:
                module.stderr = stream
                show(kind(exception), exception, traceback.__get__(exception))
        except Every:
            pass

    def fail(exception):
        # Without frames of the code (it didn't compile) the head is missing.
        without_ours(exception)
        if kind(exception) is Late:
            # And, where it was our handler that raised it, that frame, which is the last.
            entry = traceback.__get__(exception)
            while entry and entry.tb_next:
                if entry.tb_next.tb_frame.f_code is on_alarm.__code__:
                    entry.tb_next = None
                entry = entry.tb_next
        say("" if traceback.__get__(exception) else "Traceback (most recent call last):\n", exception)
        return 1

    # As late as can be: an interpreter that was started ahead says so and waits here (waiting.py).
    ready = globals().pop("ready", None)
    if ready:
        ready()
    else:
        settle()
    with open(job, "rb") as file:
        data = file.read(24)
        size, limit, handed = (int.from_bytes(data[at : at + 8], "big") for at in (0, 8, 16))
        limit, handed = limit / 1000, handed / 1000
        source, inputs = file.read(size).decode(), load(file.read().decode())

    names = {"inputs": inputs, "_return": None}
    code = 0
    try:
        try:
            if limit:
                _signal.signal(_signal.SIGALRM, on_alarm)
                setitimer(0, limit)
            exec(compile(source, "<sandbox>", "exec", dont_inherit=True), names)
        finally:
            running = False
            if limit:
                setitimer(0, 0)
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
        code = 124 if kind(exception) is Late and is_late() else fail(exception)

    value = names.get("_return")
    try:
        if kind(value).__name__ == "coroutine":
            # Where warnings is imported, a coroutine that nobody waits for is warned of in two lines, as the reference does.
            import warnings  # noqa: F401
    except Every:
        pass
    send(*encode(value))
    del value

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
