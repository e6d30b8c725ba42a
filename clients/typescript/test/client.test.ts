// Runs against a real `nacre serve`, whose address and key are in NACRE_URL and NACRE_KEY.
import assert from "node:assert/strict";
import { type RequestListener, createServer } from "node:http";
import { type AddressInfo } from "node:net";
import { after, test } from "node:test";

import { Chat, mockModel } from "../examples/ai-sdk.js";
import { NacreClient, NacreError } from "../src/index.js";

const url = process.env.NACRE_URL ?? "";
const key = process.env.NACRE_KEY ?? "";
const client = new NacreClient({ url, key });
const closing: (() => void)[] = [];
after(() => closing.forEach((close) => close()));

async function until<T>(wanted: () => Promise<T | undefined>): Promise<T> {
  for (let left = 100; left > 0; left--) {
    const found = await wanted();
    if (found !== undefined) return found;
    await new Promise((resume) => setTimeout(resume, 50));
  }
  throw new Error("it did not happen within 5 s");
}

async function serving(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resume) => server.listen(0, "127.0.0.1", resume));
  closing.push(() => (server.close(), server.closeAllConnections()));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("a memory is saved, recalled, read, changed and forgotten, and that is undone", async () => {
  const saved = await client.saveMemory({ text: "The build server is heron, in the basement." });
  assert.equal(saved.entry.body, "The build server is heron, in the basement.\n");
  const { picks } = await client.recall({ query: "Which server do we build on?" });
  assert.deepEqual(picks.map((pick) => pick.file), [saved.file]);
  assert.match(picks[0]?.text ?? "", /heron, in the basement/);

  const read = await client.getMemory(saved.file);
  assert.ok(read.etag);
  await client.changeMemory(saved.file, { text: "The build server is crane." }, { ifMatch: read.etag });
  await assert.rejects(
    client.changeMemory(saved.file, { text: "The build server is stork." }, { ifMatch: read.etag }),
    (error) => error instanceof NacreError && error.status === 409 && error.message.length > 10,
  );

  await client.forgetMemory(saved.file, { reason: "a test" });
  assert.deepEqual((await client.listMemories({ limit: 10 })).memories, []);
  await client.undo({});
  assert.equal((await client.getMemory(saved.file)).body, "The build server is crane.\n");
});

test("names with signs of an address are one part of the path", async () => {
  await assert.rejects(client.getMemory("../../etc/passwd?x=#"), (error) => {
    return error instanceof NacreError && [400, 404].includes(error.status);
  });
});

test("a refused key is an error that says so", async () => {
  await assert.rejects(new NacreClient({ url, key: "nacre_wrong" }).listSpaces(), { name: "NacreError", status: 401 });
  assert.throws(() => new NacreClient({ url, key: "" }), /nacre keys create/);
});

test("a write is repeated with the same key when the server is busy, and a server that is gone is one line", async () => {
  const keys: (string | undefined)[] = [];
  const busy = createServer((request, response) => {
    keys.push(request.headers["idempotency-key"] as string | undefined);
    const isFirst = keys.length === 1;
    response.writeHead(isFirst ? 503 : 201, { "content-type": "application/json" });
    response.end(JSON.stringify(isFirst ? { detail: "busy" } : { to: [], ids: [], waits: false }));
  });
  await new Promise<void>((resume) => busy.listen(0, "127.0.0.1", resume));
  const address = `http://127.0.0.1:${(busy.address() as AddressInfo).port}`;
  await new NacreClient({ url: address, key: "k" }).sendMail({ to: "reviewer", text: "Look at this." });
  assert.equal(keys.length, 2);
  assert.ok(keys[0]);
  assert.equal(keys[0], keys[1]);
  busy.close();
  busy.closeAllConnections();
  await assert.rejects(new NacreClient({ url: address, key: "k", retries: 0 }).listSpaces(), {
    name: "NacreError",
    status: 0,
    message: `${address}: it cannot be reached`,
  });
});

test("a request ends with its time limit or with the caller's signal", async () => {
  const address = await serving(() => {});
  const slow = new NacreClient({ url: address, key: "k", timeoutMs: 100 });
  await assert.rejects(slow.listSpaces(), /no answer within 100 ms/);
  const stop = new AbortController();
  const waiting = new NacreClient({ url: address, key: "k" }).listSpaces({ signal: stop.signal });
  stop.abort();
  await assert.rejects(waiting, { name: "AbortError" });
});

test("variables that are not set and other settings that cannot work are one line at once", async () => {
  const missing = undefined as unknown as string;
  assert.throws(() => new NacreClient({ url: missing, key }), { name: "NacreError", message: /must begin with http/ });
  assert.throws(() => new NacreClient({ url: "localhost:8750", key }), { name: "NacreError", message: /localhost:8750/ });
  assert.throws(() => new NacreClient({ url, key: missing }), { name: "NacreError", message: /nacre keys create/ });
  assert.throws(() => new NacreClient({ url, key: "ключ" }), { name: "NacreError", message: /nacre keys create/ });
  const unset = { timeoutMs: undefined, retries: undefined, fetch: undefined, space: undefined } as object;
  await new NacreClient({ url, key: `${key}\n`, ...unset }).listSpaces();
});

test("an answer that stops in the middle or is not an object is one line", async () => {
  const stalled = await serving((_, response) => response.write('{"spaces":'));
  await assert.rejects(new NacreClient({ url: stalled, key: "k", timeoutMs: 100 }).listSpaces(), {
    name: "NacreError",
    status: 0,
    message: `${stalled}: no answer within 100 ms`,
  });
  const cut = await serving((request, response) => response.write("{", () => request.socket.destroy()));
  await assert.rejects(new NacreClient({ url: cut, key: "k", retries: 0 }).listSpaces(), {
    name: "NacreError",
    status: 0,
  });
  const empty = await serving((_, response) => response.writeHead(502).end("null"));
  await assert.rejects(new NacreClient({ url: empty, key: "k" }).listSpaces(), {
    name: "NacreError",
    status: 502,
    message: `${empty} answered 502 without JSON; is it nacre's address?`,
  });
});

test("a pause before a repeated request ends with the caller's signal and is limited", async () => {
  let calls = 0;
  const busy = await serving((_, response) => {
    calls++;
    response.writeHead(429, { "retry-after": "50" }).end('{"detail": "try again later", "title": "busy"}');
  });
  await assert.rejects(new NacreClient({ url: busy, key: "k", timeoutMs: 40_000 }).listSpaces(), {
    name: "NacreError",
    status: 429,
    message: "try again later",
  });
  assert.equal(calls, 1);
  const stop = new AbortController();
  const waiting = new NacreClient({ url: busy, key: "k" }).listSpaces({ signal: stop.signal });
  await until(async () => calls === 2 || undefined);
  setTimeout(() => stop.abort(), 100);
  await assert.rejects(waiting, { name: "AbortError" });
});

test("the AI SDK's model gets what an earlier conversation stated, and nothing recalled is saved again", async () => {
  const model = mockModel("Noted.");
  await new Chat(model, client).send("Remember that releases leave on Thursdays.");
  const saved = await until(async () => {
    const { memories } = await client.listMemories({ bodies: true });
    return memories.find((one) => one.description.includes("Thursdays"));
  });
  assert.equal(await new Chat(model, client).send("On which day do releases leave?"), "Noted.");
  const sent = JSON.stringify(model.doGenerateCalls.at(-1)?.prompt);
  assert.match(sent, /On which day do releases leave\?.*releases leave on Thursdays/);
  await until(async () => {
    const { jobs } = await client.listJobs();
    return jobs.filter((job) => job.kind === "extract" && job.status === "completed").length >= 2 || undefined;
  });
  const now = (await client.listMemories()).memories.filter((one) => one.description.includes("Thursdays"));
  assert.deepEqual(now.map((one) => one.file), [saved.file]);
});
