// The driver of `run` for Node: reads a job, runs the code in it as a script, sends back the value of _return when the process exits. As with
// Python's, nothing here is a control.
const fs = require("fs");
const { Buffer } = require("buffer");
const [, job, result] = process.argv.splice(1, 3).map(Number);
const data = fs.readFileSync(job);
fs.closeSync(job);
const size = Number(data.readBigUInt64BE(0));
const source = data.toString("utf8", 8, 8 + size);
globalThis.inputs = JSON.parse(data.toString("utf8", 8 + size));
globalThis._return = null;
const { stringify } = JSON;
const { inspect } = require("util");
const { writeSync, closeSync } = fs;
const encode = (value) => {
  try {
    const text = stringify(value);
    if (text !== undefined) return ["v", text];
  } catch {}
  try {
    return ["r", stringify(inspect(value))];
  } catch (error) {
    return ["f", "the value can't be shown"];
  }
};
process.on("SIGALRM", () => process.exit(124)); // the end of its time
process.on("exit", () => {
  const [letter, text] = encode(globalThis._return);
  const payload = Buffer.from(text);
  const head = Buffer.alloc(9);
  head.write(letter);
  head.writeBigUInt64BE(BigInt(payload.length), 1);
  try {
    for (const part of [head, payload]) for (let done = 0; done < part.length; ) done += writeSync(result, part, done);
    closeSync(result);
  } catch {}
});
require("vm").runInThisContext(source, { filename: "<sandbox>" });
