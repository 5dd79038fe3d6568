"""agent-sandbox's own client, unmodified, against sandboxd. What is Kubernetes' here, and nothing else, is stood in for: an API server that knows one
sandbox and binds every claim to it."""

import http.client
import http.server
import io
import json
import os
import threading
import unittest

import grpc
from kubernetes import client as kubernetes

from k8s_agent_sandbox import SandboxClient
from k8s_agent_sandbox.commands._process_stubs import process_pb2, process_pb2_grpc
from k8s_agent_sandbox.exceptions import SandboxRequestError
from k8s_agent_sandbox.models import SandboxDirectConnectionConfig, SandboxInClusterConnectionConfig, SandboxdInClusterConnectionConfig

POD, ROUTER, TOKEN = (os.environ["SUITE_" + name] for name in ("POD", "ROUTER", "TOKEN"))
NAME = "bound-sandbox"


class APIServer(http.server.BaseHTTPRequestHandler):
    """Claims are ready at once, as those of a warm pool are."""

    protocol_version = "HTTP/1.1"

    def answer(self, value):
        body = json.dumps(value).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def claim(self, name):
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
        return {
            "apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim",
            "metadata": {"name": name, "namespace": "default", "uid": "1", "resourceVersion": "1"},
            "spec": {"warmPoolRef": {"name": "pool"}},
            "status": {"sandbox": {"name": NAME, "podIPs": [POD]}, "conditions": [ready]},
        }

    def do_POST(self):
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).name = wanted["metadata"]["name"]
        self.answer(self.claim(self.name))

    def do_GET(self):
        if "watch" in self.path:
            self.answer({"type": "ADDED", "object": self.claim(self.name)})
        else:
            self.answer({"metadata": {"name": NAME}, "status": {"podIPs": [POD], "conditions": []}})

    def do_DELETE(self):
        self.answer({"status": "Success"})

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), APIServer)
threading.Thread(target=server.serve_forever, daemon=True).start()


def sandbox(config):
    settings = kubernetes.Configuration(host=f"http://127.0.0.1:{server.server_port}")
    return SandboxClient(connection_config=config, api_client=kubernetes.ApiClient(settings)).create_sandbox("pool", sandbox_ready_timeout=20)


class Runtime:
    """What holds however the client is connected."""

    def test_commands(self):
        result = self.box.commands.run("echo out; echo err >&2; exit 3")
        self.assertEqual((result.stdout, result.stderr, result.exit_code), ("out\n", "err\n", 3))
        self.assertEqual(self.box.commands.run("id -u; grep NoNewPrivs /proc/self/status; grep Seccomp: /proc/self/status").stdout.split()[1:], ["NoNewPrivs:", "1", "Seccomp:", "2"])

    def test_timeout(self):
        result = self.box.commands.run("sleep 300", command_timeout=0.5)
        self.assertTrue(result.timed_out)
        self.assertEqual(result.exit_code, 124)

    def test_files(self):
        files, name = self.box.files, f"{type(self).__name__}/a b/ü%2Fä.bin"
        content = bytes(range(256)) * 4096
        self.assertFalse(files.exists(name))
        files.write(name, content)
        self.assertTrue(files.exists(name))
        self.assertEqual(files.read(name), content)
        into = io.BytesIO()
        self.assertEqual(files.read_to(name, into), len(content))
        self.assertEqual(into.getvalue(), content)
        files.write(type(self).__name__ + "/streamed", io.BytesIO(b"piece by piece"))
        self.assertEqual({(e.name, e.size, e.type) for e in files.list(type(self).__name__)} & {("streamed", 14, "file")}, {("streamed", 14, "file")})
        self.assertIn(("a b", "directory"), {(e.name, e.type) for e in files.list(type(self).__name__)})
        self.assertEqual(self.box.commands.run(f"cat '{type(self).__name__}/streamed'").stdout, "piece by piece")

    def refused(self, status, words, call, *arguments, **named):
        with self.assertRaises(SandboxRequestError) as no:
            call(*arguments, **named)
        self.assertEqual(no.exception.status_code, status, no.exception.response.text)
        for word in words:
            self.assertIn(word, no.exception.response.json()["message"])

    def test_what_is_outside(self):
        for name in ("../etc/passwd", "/../etc/passwd", "a/../../etc/passwd"):
            self.refused(403, ["leads out of /work"], self.box.files.read, name, allow_unsafe_paths=True)
        self.refused(403, ["leads out of /work"], self.box.files.write, "../tmp/x", b"", allow_unsafe_paths=True)
        self.refused(404, [], self.box.files.read, "etc/passwd")


class Older(Runtime):
    """By the API of the older runtime."""

    def test_denied(self):
        self.refused(403, ["refused by policy", "timeoutSeconds"], self.box.commands.run, "true", command_timeout=4000)


class Direct(Older, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.box = sandbox(SandboxDirectConnectionConfig(api_url=f"http://{POD}:8889", extra_headers={"Authorization": "Bearer " + TOKEN}))

    def test_without_the_token(self):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
            box = sandbox(SandboxDirectConnectionConfig(api_url=f"http://{POD}:8889", extra_headers=headers))
            self.refused(401, ["token"], box.commands.run, "true")


class InCluster(Older, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.box = sandbox(SandboxInClusterConnectionConfig(server_port=8888))


class Router(Older, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.box = sandbox(SandboxDirectConnectionConfig(api_url=ROUTER, server_port=8888, extra_headers={"Authorization": "Bearer " + TOKEN}))


class Portable(Runtime, unittest.TestCase):
    """By the portable runtime's REST and gRPC."""

    @classmethod
    def setUpClass(cls):
        cls.box = sandbox(SandboxdInClusterConnectionConfig(mode="in-cluster-pod-ip", rest_port=8888, grpc_port=9090))
        cls.stub = process_pb2_grpc.ProcessServiceStub(grpc.insecure_channel(f"{POD}:9090"))

    def test_environment(self):
        result = self.box.commands.run("echo $GREETING; pwd", env={"GREETING": "hello"}, cwd="/tmp/..")
        self.assertEqual(result.stdout, "hello\n/work\n")

    def test_denied(self):
        with self.assertRaises(RuntimeError) as no:
            self.box.commands.run("true", env={"LD_PRELOAD": "/work/mine.so"})
        for word in ("PERMISSION_DENIED", "refused by policy", "LD_PRELOAD"):
            self.assertIn(word, str(no.exception))

    def test_delete(self):
        files = self.box.files
        files.write("tree/below/file", b"")
        self.refused(409, ["isn't empty"], files.delete, "tree")
        files.delete("tree", recursive=True)
        self.assertFalse(files.exists("tree"))
        self.refused(404, [], files.delete, "tree")
        self.refused(409, ["stays"], files.delete, ".", recursive=True)

    def start(self, *command):
        return self.stub.Start(process_pb2.StartRequest(config=process_pb2.ProcessConfig(command=command)), timeout=60)

    def test_stream(self):
        events = self.start("/bin/sh", "-c", "echo ready; while read line; do echo got $line; done; echo end >&2")
        process = next(events).init.process_id
        self.assertEqual(next(events).stdout, b"ready\n")
        for word in (b"one", b"two"):
            self.stub.WriteStdin(process_pb2.WriteStdinRequest(process_id=process, input=word + b"\n"))
            self.assertEqual(next(events).stdout, b"got " + word + b"\n")
        self.stub.WriteStdin(process_pb2.WriteStdinRequest(process_id=process, eof={}))
        self.assertEqual(next(events).stderr, b"end\n")
        self.assertEqual(next(events).exit.exit_code, 0)
        self.assertEqual(list(events), [])
        with self.assertRaises(grpc.RpcError) as no:
            self.stub.WriteStdin(process_pb2.WriteStdinRequest(process_id=process, input=b"x"))
        self.assertEqual(no.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_signals(self):
        for signal, last, code in ((process_pb2.SIGNAL_SIGTERM, b"asked\n", 7), (process_pb2.SIGNAL_SIGKILL, b"", -1)):
            events = self.start("/bin/sh", "-c", "trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.05; done")
            process = next(events).init.process_id
            self.assertEqual(next(events).stdout, b"ready\n")
            self.stub.SendSignal(process_pb2.SendSignalRequest(process_id=process, signal=signal))
            rest = list(events)
            self.assertEqual(b"".join(e.stdout for e in rest), last)
            self.assertEqual(rest[-1].exit.exit_code if rest[-1].HasField("exit") else rest, code)

    def test_terminal(self):
        command = ["/bin/sh", "-c", "trap 'stty size; exit 7' INT; stty size; while :; do read line && echo got $line; done"]
        events = self.stub.Start(process_pb2.StartRequest(config=process_pb2.ProcessConfig(command=command), pty={"cols": 100, "rows": 30}), timeout=60)
        process, said = next(events).init.process_id, b""

        def until(words):
            nonlocal said
            while words not in said:
                said += next(events).stdout

        until(b"30 100\r\n")
        self.stub.WriteStdin(process_pb2.WriteStdinRequest(process_id=process, input=b"typed\n"))
        until(b"got typed\r\n")
        self.stub.ResizeTTY(process_pb2.ResizeTTYRequest(process_id=process, cols=120, rows=40))
        self.stub.SendSignal(process_pb2.SendSignalRequest(process_id=process, signal=process_pb2.SIGNAL_SIGINT))
        until(b"40 120\r\n")
        self.assertEqual(list(events)[-1].exit.exit_code, 7)

    def test_a_client_that_goes_away(self):
        # Whoever runs has the lock.
        events = self.start("flock", "lock", "sh", "-c", "echo ready; sleep 300")
        next(events)
        self.assertEqual(next(events).stdout, b"ready\n")
        self.assertEqual(self.box.commands.run("flock --nonblock lock true").exit_code, 1)
        events.cancel()
        self.assertEqual(self.box.commands.run("flock --timeout 50 lock true").exit_code, 0)

    def test_what_is_not_served(self):
        C = grpc.StatusCode
        config = process_pb2.ProcessConfig(command=["true"])
        for code, call, message in (
            (C.INVALID_ARGUMENT, lambda m: next(self.stub.Start(m)), process_pb2.StartRequest(config=config, pty={"cols": 1 << 16, "rows": 24})),
            (C.INVALID_ARGUMENT, self.stub.Execute, process_pb2.ExecuteRequest()),
            (C.NOT_FOUND, self.stub.SendSignal, process_pb2.SendSignalRequest(process_id=77, signal=process_pb2.SIGNAL_SIGTERM)),
            (C.NOT_FOUND, self.stub.ResizeTTY, process_pb2.ResizeTTYRequest(process_id=77)),
            (C.NOT_FOUND, self.stub.Execute, process_pb2.ExecuteRequest(config=process_pb2.ProcessConfig(command=["/work/none"]))),
            (C.PERMISSION_DENIED, self.stub.Execute, process_pb2.ExecuteRequest(config=process_pb2.ProcessConfig(command=["true"], cwd="../etc"))),
        ):
            with self.assertRaises(grpc.RpcError) as no:
                call(message)
            self.assertEqual(no.exception.code(), code, no.exception.details())

    def test_strangers(self):
        away = http.client.HTTPConnection(POD, 8888, source_address=("127.0.0.1", 0))
        away.request("POST", "/execute", json.dumps({"command": "true"}))
        self.assertEqual(away.getresponse().status, 403)


if __name__ == "__main__":
    unittest.main(verbosity=1)
