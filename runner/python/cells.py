# The driver of a code context: an interpreter that runs one cell of code after another and keeps what each has left. CPython 3.9 or newer.
#
# It shares the interpreter with the code that it runs, so nothing here is a control: clock, limits, kill and the end of a cell's answer are the
# supervisor's. Code may say whatever it likes on the channel, in its own context's name: what comes of it is that context's own answer, and no other's.
# What the driver owes is that honest code finds what it expects, and that broken code doesn't lose its results. So everything that is used after a cell
# has run is taken into local names before.
#
# argv: the channel, a SOCK_SEQPACKET socket. Each packet is a letter, 8 bytes (big endian) with the cell's number, a byte that says whether the text goes
# on in the next packet, and a piece of it. The supervisor sends c, a cell's code, and a when it has taken a result. The driver sends w when it waits for the first cell,
# and then of each cell: r, a result as a JSON object of texts by their media type, as often as there are some; e, an exception, at most once; d, its end.
import _signal
import _thread
import ast
import binascii
import json
import linecache
import os
import sys
import traceback
import types
from importlib.machinery import PathFinder

PIECE = 32 << 10
# A result is bounded by what every client takes as one event.
MOST_RESULT = 3 << 20
MOST_PLAIN = 256 << 10
MOST_TRACE = 128 << 10

# What an object says of itself, by the names that notebooks have agreed on.
METHODS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("text/latex", "_repr_latex_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("application/json", "_repr_json_"),
    ("application/javascript", "_repr_javascript_"),
    ("application/pdf", "_repr_pdf_"),
)


def main(channel):
    # At once, before anything can start a process that inherits it.
    os.set_inheritable(channel, False)
    read, write, fstat, getpid, first = os.read, os.write, os.fstat, os.getpid, os.getpid()
    ours = fstat(channel).st_dev, fstat(channel).st_ino
    dumps, base64, parse, run, text, kind, is_a, length = json.dumps, binascii.b2a_base64, compile, eval, str, type, isinstance, len
    representation, get, join, driver = repr, getattr, "".join, globals()
    leave, show = os._exit, sys.__excepthook__
    format_exception, lines_of, modules, system, reset = traceback.format_exception, linecache.cache, sys.modules, sys, _signal.signal
    Module, Expression, Expr, Every, Interrupt = ast.Module, ast.Expression, ast.Expr, BaseException, KeyboardInterrupt
    ONLY_AST, AWAIT, COROUTINE, SIGINT = ast.PyCF_ONLY_AST, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, 0x80, _signal.SIGINT
    lock, thread, main_thread = _thread.allocate_lock(), _thread.get_ident, _thread.get_ident()
    running = late = False
    number = sender = 0
    loop = None

    def on_interrupt(signum, frame):
        # Only code is interrupted, and nothing that is half sent by it.
        nonlocal late
        if running and sender != main_thread:
            raise Interrupt
        late = running

    def packet(letter, payload):
        nonlocal sender, late
        if getpid() != first:
            return  # a child of os.fork: it isn't asked
        with lock:
            status = fstat(channel)
            if (status.st_dev, status.st_ino) != ours:
                raise SystemExit("the context's channel is closed, and something else has its number")
            sender = thread()
            try:
                at = 0
                while True:
                    piece = payload[at : at + PIECE]
                    at += PIECE
                    more = at < length(payload)
                    write(channel, letter + number.to_bytes(8, "big") + (b"\1" if more else b"\0") + piece)
                    if not more:
                        break
                if letter == b"r":
                    # What is written from here on comes after it.
                    answer = read(channel, PIECE + 64)
                    if not answer:
                        raise SystemExit(0)
            finally:
                sender = 0
        if late and thread() == main_thread:
            late = False
            raise Interrupt

    def receive():
        parts = []
        while True:
            piece = read(channel, PIECE + 64)
            if length(piece) < 10:
                raise SystemExit(0)  # nobody asks any more
            if piece[:1] != b"c":
                continue  # an answer that nobody waits for
            parts.append(piece[10:])
            if not piece[9]:
                return int.from_bytes(piece[1:9], "big"), b"".join(parts).decode()

    def flush():
        for name in "stdout", "stderr":
            try:
                get(system, name).flush()
            except Every:
                pass

    def note(line):
        try:
            system.stderr.write(line + "\n")
        except Every:
            pass

    def as_text(value):
        if is_a(value, (bytes, bytearray, memoryview)):
            return base64(value, newline=False).decode()
        return value if is_a(value, text) else dumps(value, default=text)

    def plain(value):
        shown = representation(value)
        if length(shown) > MOST_PLAIN:
            shown = "%s… (%d characters more)" % (shown[:MOST_PLAIN], length(shown) - MOST_PLAIN)
        return shown

    def bundle(value):
        # Asked of the class, as notebooks do: an object that answers to any name has none of these.
        found, of = {}, kind(value)
        if not is_a(value, kind):
            whole = get(of, "_repr_mimebundle_", None)
            if whole is not None:
                try:
                    given = whole(value, include=None, exclude=None)
                    given = given[0] if is_a(given, tuple) else given
                    for name, shown in (given or {}).items():
                        found[text(name)] = as_text(shown)
                except Exception as exception:
                    note("_repr_mimebundle_: %s: %s" % (kind(exception).__name__, exception))
            for name, method in METHODS:
                method = get(of, method, None)
                if method is None or name in found:
                    continue
                try:
                    shown = method(value)
                    shown = shown[0] if is_a(shown, tuple) else shown
                    if shown is not None:
                        found[name] = as_text(shown)
                except NotImplementedError:
                    pass
                except Exception as exception:
                    note("%s: %s: %s" % (method.__name__, kind(exception).__name__, exception))
        figure = modules.get("matplotlib.figure")
        if figure is not None and is_a(value, figure.Figure) and "image/png" not in found:
            found["image/png"] = picture(value)
        if "text/plain" not in found:
            found["text/plain"] = plain(value)
        return found

    def send(found):
        while True:
            data = dumps(found).encode()
            if length(data) <= MOST_RESULT:
                break
            largest = max(found, key=lambda name: length(found[name]))
            note("%s of %d characters is left out: a result may have at most %d" % (largest, length(found.pop(largest)), MOST_RESULT))
        if found:
            flush()
            packet(b"r", data)

    def picture(figure):
        from io import BytesIO

        out = BytesIO()
        figure.savefig(out, format="png", bbox_inches="tight")
        return base64(out.getvalue(), newline=False).decode()

    def close(value):
        # A figure that was shown isn't shown again at the end of its cell.
        pyplot, figure = modules.get("matplotlib.pyplot"), modules.get("matplotlib.figure")
        if pyplot is not None and figure is not None and is_a(value, figure.Figure):
            pyplot.close(value)

    def figures(*args, **kwargs):
        pyplot = modules.get("matplotlib.pyplot")
        if pyplot is None or get(pyplot, "get_fignums", None) is None:
            return
        for fignum in pyplot.get_fignums():
            figure = pyplot.figure(fignum)
            try:
                send({"image/png": picture(figure), "text/plain": plain(figure)})
            finally:
                pyplot.close(figure)

    def display(*values, **kwargs):
        """Shows values as the last expression of a cell is shown."""
        for value in values:
            send(bundle(value))
            close(value)

    class Show:
        # Has pyplot.show show, in place of the warning that Agg has no window.
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name != "matplotlib.pyplot":
                return None
            spec = PathFinder.find_spec(name, path)
            if spec is not None and spec.loader is not None:
                load = spec.loader.exec_module

                def exec_module(module):
                    load(module)
                    module.show = figures

                spec.loader.exec_module = exec_module
            return spec

    def split(source, name):
        # The last expression is the result, unless a semicolon says otherwise.
        tree = parse(source, name, "exec", ONLY_AST | AWAIT, True)
        last = tree.body[-1] if tree.body else None
        if not is_a(last, Expr) or source.encode().splitlines()[last.end_lineno - 1][last.end_col_offset :].lstrip().startswith(b";"):
            return parse(tree, name, "exec", AWAIT, True), None
        return parse(Module(tree.body[:-1], tree.type_ignores), name, "exec", AWAIT, True), parse(Expression(last.value), name, "eval", AWAIT, True)

    def execute(code):
        nonlocal loop
        value = run(code, names)
        if code.co_flags & COROUTINE:
            import asyncio

            if loop is None:
                loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            value = loop.run_until_complete(value)
        return value

    def cell(source):
        name = "<cell %d>" % number
        lines_of[name] = (length(source), None, source.splitlines(True), name)
        before, last = split(source, name)
        try:
            execute(before)
            value = None if last is None else execute(last)
            if value is not None:
                names["_"] = value
                display(value)
        finally:
            figures()

    def fail(exception):
        # Without the driver's own frames, wherever they are.
        def foreign(entry):
            while entry is not None and entry.tb_frame.f_globals is driver:
                entry = entry.tb_next
            return entry

        entry = exception.__traceback__ = foreign(exception.__traceback__)
        while entry is not None:
            entry.tb_next = foreign(entry.tb_next)
            entry = entry.tb_next
        try:
            value = text(exception)
        except Every:
            value = "<no text: str of it fails>"
        try:
            shown = join(format_exception(kind(exception), exception, exception.__traceback__))
        except Every:
            shown = kind(exception).__name__ + ": " + value
        if length(shown) > MOST_TRACE:
            shown = shown[: MOST_TRACE // 2] + "\n…\n" + shown[-MOST_TRACE // 2 :]
        flush()
        packet(b"e", dumps({"ename": kind(exception).__name__, "evalue": value[:MOST_TRACE], "traceback": shown.splitlines()}).encode())

    # What a cell sees: a module of its own, the modules beside it, and none of the driver's names.
    space = types.ModuleType("__main__")
    names = space.__dict__
    names["__builtins__"] = __builtins__
    names["display"] = display
    modules["__main__"] = space
    system.argv[:] = [""]
    system.path.insert(0, "")
    system.meta_path.insert(0, Show)

    packet(b"w", b"")
    while True:
        reset(SIGINT, on_interrupt)
        number, source = receive()
        late, failed = False, 0
        try:
            try:
                running = True
                cell(source)
            finally:
                running = False
        except Every as exception:
            running = late = False
            failed = 1
            if getpid() == first:
                fail(exception)
            else:
                show(kind(exception), exception, exception.__traceback__)
        del source
        flush()
        if getpid() != first:
            leave(failed)  # a child that the cell has forked and forgotten: the next isn't its
        packet(b"d", b"")


main(int(sys.argv.pop(1)))
