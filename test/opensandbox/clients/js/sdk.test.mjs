// OpenSandbox's JavaScript SDK, unmodified, against sandboxd: what a program does with it, call by call.
//
// OPEN_SANDBOX_DOMAIN and OPEN_SANDBOX_API_KEY, which the SDK itself reads, name the server; SANDBOXD_TEST_ALLOWED and SANDBOXD_TEST_DENIED are addresses
// with a web server each. The server's policy lists the first of them and closed networks only.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { Sandbox, SandboxApiException, SandboxManager } from "@alibaba-group/opensandbox";

const allowed = process.env.SANDBOXD_TEST_ALLOWED;
const denied = process.env.SANDBOXD_TEST_DENIED;
const closed = { defaultAction: "deny", egress: [{ action: "allow", target: allowed }] };
const mark = randomUUID();

const create = (options = {}) =>
  Sandbox.create({ image: "host", networkPolicy: closed, metadata: { mark }, timeoutSeconds: 300, ...options });
const said = (messages) => messages.map((message) => message.text).join("|");

// refused awaits a call that must fail as an API error of this status and code, whose message matches.
async function refused(call, status, code, message) {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof SandboxApiException, `${error}`);
    assert.equal(error.statusCode, status);
    assert.equal(error.error.code, code);
    assert.match(error.error.message, message);
    assert.match(error.message, message);
    assert.match(error.requestId, /^[0-9a-f]{32}$/);
    return true;
  });
}

// A connection that is refused: by the relay or by the fence where something may be reached, else by Landlock.
const unreached = /reset by peer|connect to server/;

// reaches says how a connection from inside ends.
async function reaches(box, host) {
  const run = await box.commands.run(`curl -sS -m 20 -o /dev/null -w '%{http_code}' http://${host}/`);
  return run.exitCode === 0 ? said(run.logs.stdout) : said(run.logs.stderr);
}

describe("one sandbox", () => {
  let box;
  before(async () => {
    box = await create({ env: { COLOUR: "green" }, resource: { cpu: "500m", memory: "256Mi" } });
  });
  after(async () => {
    await box?.kill();
    await box?.close();
  });

  test("create: what was asked for is told", async () => {
    const info = await box.getInfo();
    assert.equal(info.status.state, "Running");
    assert.equal(info.metadata.mark, mark);
    assert.deepEqual(info.image, { uri: "host" });
    assert.ok(info.expiresAt > new Date());
    assert.equal(await box.isHealthy(), true);
  });

  test("a command in the foreground, as it comes", async () => {
    const seen = [];
    const run = await box.commands.run('echo "$COLOUR $SHADE"; echo warned >&2; pwd; exit 7', { workingDirectory: "/tmp", envs: { SHADE: "dark" } }, {
      onInit: (init) => seen.push(`init ${init.id.length}`),
      onStdout: (message) => seen.push(message.text),
      onError: (error) => seen.push(`error ${error.value}`),
    });
    assert.equal(run.exitCode, 7);
    assert.equal(said(run.logs.stdout), "green dark|/tmp");
    assert.equal(said(run.logs.stderr), "warned");
    assert.deepEqual(seen, ["init 32", "green dark", "/tmp", "error 7"]);
    assert.equal((await box.commands.run("true")).exitCode, 0);
  });

  test("a line with what breaks streams", async () => {
    const run = await box.commands.run("printf 'a\\302\\205b\\342\\200\\250c\\n\\nlast'");
    assert.equal(said(run.logs.stdout), "a\u0085b\u2028c|\n|last");
  });

  test("a command's time", async () => {
    const run = await box.commands.run("sleep 600 & setsid sleep 600 & sleep 600", { timeoutSeconds: 1 });
    assert.equal(run.exitCode, -1);
    assert.equal(run.error.name, "CommandTimeout");
  });

  test("a command in the background: status, logs, interrupt", async () => {
    const run = await box.commands.run("echo begun; sleep 600", { background: true });
    for (let logs = ""; logs !== "begun\n"; ) {
      logs = (await box.commands.getBackgroundCommandLogs(run.id, 0)).content; // polls until the line has come
    }
    const running = await box.commands.getCommandStatus(run.id);
    assert.equal(running.running, true);
    assert.equal(running.exitCode, null);
    assert.ok(running.startedAt instanceof Date);
    await box.commands.interrupt(run.id);
    let status = running;
    while (status.running) {
      status = await box.commands.getCommandStatus(run.id); // polls until it has ended
    }
    assert.equal(status.exitCode, -1);
    assert.ok(status.finishedAt >= status.startedAt);
    await refused(() => box.commands.interrupt(run.id), 404, "COMMAND_NOT_FOUND", /has ended/);
  });

  test("a session", async () => {
    const session = await box.commands.createSession({ workingDirectory: "/tmp" });
    await box.commands.runInSession(session, "export KEPT=yes; cd /work");
    assert.equal(said((await box.commands.runInSession(session, 'echo "$KEPT $PWD"')).logs.stdout), "yes /work");
    await box.commands.deleteSession(session);
    await assert.rejects(box.commands.runInSession(session, "true"), /session/);
  });

  test("files: made, written, read, listed, described, found, changed, moved, deleted", async () => {
    const { files } = box;
    await files.createDirectories([{ path: "/work/made/deep", mode: 750 }]);
    await files.writeFiles([
      { path: "/work/made/one.txt", data: "one\ntwo\nthree\n", mode: 640 },
      { path: "/work/made/bytes", data: Uint8Array.of(0, 255, 10, 133) },
    ]);
    assert.equal(await files.readFile("/work/made/one.txt"), "one\ntwo\nthree\n");
    assert.equal(await files.readFile("/work/made/one.txt", { range: "bytes=4-6" }), "two");
    assert.equal(await files.readFile("/work/made/one.txt", { offset: 2, limit: 1 }), "two\n");
    assert.deepEqual([...(await files.readBytes("made/bytes"))], [0, 255, 10, 133]);

    const listed = await files.listDirectory({ path: "/work/made", depth: 1 });
    assert.deepEqual(listed.map((entry) => [entry.path, entry.type]).sort(), [
      ["/work/made/bytes", "file"], ["/work/made/deep", "directory"], ["/work/made/one.txt", "file"],
    ]);
    const info = (await files.getFileInfo(["/work/made/one.txt"]))["/work/made/one.txt"];
    assert.deepEqual([info.type, info.size, info.mode], ["file", 14, 640]);
    assert.ok(info.modifiedAt instanceof Date);
    assert.deepEqual((await files.search({ path: "/work", pattern: "*.txt" })).map((entry) => entry.path), ["/work/made/one.txt"]);

    await files.replaceContents([{ path: "/work/made/one.txt", oldContent: "two", newContent: "2" }]);
    await files.setPermissions([{ path: "/work/made/one.txt", mode: 600 }]);
    await files.moveFiles([{ src: "/work/made/one.txt", dest: "/work/made/deep/moved.txt" }]);
    assert.equal(said((await box.commands.run("cat made/deep/moved.txt; stat -c %a made/deep made/deep/moved.txt")).logs.stdout), "one|2|three|750|600");

    await files.deleteFiles(["/work/made/deep/moved.txt"]);
    await refused(() => files.getFileInfo(["/work/made/deep/moved.txt"]), 404, "FILE_NOT_FOUND", /moved\.txt/);
    await files.deleteDirectories(["/work/made"]);
    assert.equal(said((await box.commands.run("ls /work")).logs.stdout), "");
  });

  test("a file as it is made, and one that isn't there", async () => {
    const piece = new Uint8Array(1 << 20).fill(120);
    await box.files.writeFiles([{ path: "large", data: (async function* () { for (let i = 0; i < 8; i++) yield piece; })() }]);
    let size = 0;
    for await (const part of box.files.readBytesStream("large")) size += part.length;
    assert.equal(size, 8 << 20);
    await assert.rejects(box.files.readFile("/work/nothing"), (error) => error.statusCode === 404 && /FILE_NOT_FOUND/.test(error.rawBody));
  });

  test("egress: what is enforced is told, and a change is in force when it is answered", async () => {
    assert.deepEqual(await box.getEgressPolicy(), closed);
    assert.equal(await reaches(box, allowed), "200");
    assert.match(await reaches(box, denied), unreached);

    await box.patchEgressRules([{ action: "deny", target: allowed }]);
    assert.match(await reaches(box, allowed), unreached);
    await box.patchEgressRules([{ action: "allow", target: allowed }, { action: "deny", target: allowed }]); // the first is the one that counts
    assert.equal(await reaches(box, allowed), "200");
    await box.patchEgressRules([{ action: "deny", target: "*.example.com" }]);
    assert.deepEqual((await box.getEgressPolicy()).egress[0], { action: "deny", target: "*.example.com" });
    await box.deleteEgressRules(["*.example.com"]);
    assert.deepEqual(await box.getEgressPolicy(), closed);
  });

  test("egress: what policy doesn't list is refused with its reason, and nothing is changed", async () => {
    await refused(() => box.patchEgressRules([{ action: "allow", target: denied }]), 403, "SANDBOX::POLICY_DENIED", /may only be allowed to these targets/);
    await refused(() => box.patchEgressRules([{ action: "allow", target: "https://x.example" }]), 400, "SANDBOX::INVALID_REQUEST", /target/);
    assert.deepEqual(await box.getEgressPolicy(), closed);
    assert.match(await reaches(box, denied), unreached);
  });

  test("metrics are the sandbox's", async () => {
    const metrics = await box.getMetrics();
    assert.equal(metrics.cpuCount, 0.5);
    assert.equal(metrics.memoryTotalMiB, 256);
    assert.ok(metrics.memoryUsedMiB >= 0 && metrics.timestamp > 1e12);
  });

  test("renew, metadata", async () => {
    const before = (await box.getInfo()).expiresAt;
    const { expiresAt } = await box.renew(1200);
    assert.ok(expiresAt - before > 600_000);
    const info = await box.patchMetadata({ stage: "two", none: null });
    assert.deepEqual(info.metadata, { mark, stage: "two" });
    await refused(() => box.sandboxes.renewSandboxExpiration(box.id, { expiresAt: "2020-01-01T00:00:00Z" }), 400, "SANDBOX::INVALID_REQUEST", /future/);
  });

  test("pause stops everything where it is, resume lets it go on", async () => {
    await box.pause();
    assert.equal((await box.getInfo()).status.state, "Paused");
    const resumed = await box.resume();
    assert.equal(said((await resumed.commands.run("echo on")).logs.stdout), "on");
  });

  test("isolation: what the kernel says of a command", async () => {
    const capabilities = await box.isolation.capabilities();
    assert.equal(capabilities.available, true);
    assert.equal((await box.isolation.runOnce("echo inside", "/work")).exitCode, 0);
  });

  test("a port of the sandbox", async () => {
    await box.commands.run("mkdir -p site && echo served >site/index.html && cd site && python3 -m http.server 8000 --bind 127.0.0.1", { background: true });
    const { endpoint, headers } = await box.getEndpoint(8000);
    let answer;
    do {
      answer = await fetch(`http://${endpoint}/`, { headers }); // polls until it listens
    } while (answer.status === 502);
    assert.equal(await answer.text(), "served\n");
    assert.equal((await fetch(`http://${endpoint}/`)).status, 401);
  });
});

describe("many", () => {
  test("list by metadata and by page, connect, kill", async () => {
    const group = randomUUID();
    const boxes = await Promise.all([1, 2, 3].map((n) => create({ metadata: { "in group": `${group}= +%41;`, n: `${n}` } })));
    const manager = SandboxManager.create();
    const find = (more) => manager.listSandboxInfos({ metadata: { "in group": `${group}= +%41;` }, ...more });
    assert.equal((await find({ states: ["Running"] })).items.length, 3);
    assert.equal((await find({ states: ["Paused"] })).items.length, 0);
    const page = await find({ page: 2, pageSize: 2 });
    assert.equal(page.items.length, 1);
    assert.equal(page.pagination.totalItems, 3);
    const again = await Sandbox.connect({ sandboxId: boxes[1].id });
    assert.equal((await again.commands.run("true")).exitCode, 0);
    await again.close();
    for (const box of boxes) {
      await box.kill();
      await refused(() => box.getInfo(), 404, "SANDBOX::NOT_FOUND", new RegExp(box.id));
      await box.close();
    }
    assert.equal((await find()).items.length, 0);
    await manager.close();
  });
});

describe("denials reach the caller", () => {
  const cases = {
    "an open network": [{ networkPolicy: undefined }, 403, "SANDBOX::POLICY_DENIED", /network must be closed by default/],
    "a target that isn't listed": [{ networkPolicy: { egress: [{ action: "allow", target: denied }] } }, 403, "SANDBOX::POLICY_DENIED", /may only be allowed to these targets/],
    "a target that can't be enforced": [{ networkPolicy: { egress: [{ action: "allow", target: "https://x.example" }] } }, 400, "SANDBOX::INVALID_REQUEST", /egress\[0\]\.target/],
    "an image that isn't here": [{ image: "nobody/has:this" }, 403, "SANDBOX::POLICY_DENIED", /sandboxd image import/],
    "a variable that loads code": [{ env: { LD_PRELOAD: "/work/evil.so" } }, 403, "SANDBOX::POLICY_DENIED", /LD_PRELOAD/],
    "a capability": [{ extensions: { "sandboxd.securityContext": '{"capabilities":{"add":["SYS_ADMIN"]}}' } }, 403, "SANDBOX::POLICY_DENIED", /capabilities may be added: none/],
    "a volume of this machine": [{ volumes: [{ name: "v", host: { path: "/" }, mountPath: "/mnt" }] }, 400, "SANDBOX::OPTION_NOT_SUPPORTED", /volumes/],
    "a life of a second": [{ timeoutSeconds: 1 }, 400, "SANDBOX::INVALID_REQUEST", /timeout/],
  };
  for (const [name, [options, status, code, message]] of Object.entries(cases)) {
    test(`create: ${name}`, () => refused(() => create(options), status, code, message));
  }

  test("create: a wrong key, and none", async () => {
    await refused(() => create({ connectionConfig: { apiKey: "wrong" } }), 401, "INVALID_API_KEY", /key/i);
  });

  test("a command: a reason on stderr, and a status", async () => {
    const box = await create();
    try {
      const run = await box.commands.run("id", { envs: { LD_PRELOAD: "/work/evil.so" } });
      assert.equal(run.exitCode, 125);
      assert.match(said(run.logs.stderr), /refused: .*LD_PRELOAD/);
      assert.equal(run.error.name, "CommandRefused");
      const root = await box.commands.run("id -u", { uid: 0 });
      assert.equal(root.exitCode, 125);
      assert.match(said(root.logs.stderr), /refused: /);
    } finally {
      await box.kill();
      await box.close();
    }
  });
});
