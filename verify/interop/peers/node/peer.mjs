// The peer that uses node-redlock. The package documentation of interop describes the protocol.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import Redis from "ioredis";
import Redlock, { ExecutionError } from "redlock";

const clients = process.argv[2].split(",").map((address) => {
  const [host, port] = address.split(":");
  return new Redis({ host, port: Number(port) }).on("error", () => {}); // the calls report it
});
const client = clients[0]; // of the counters
const redlock = new Redlock(clients, { retryCount: 0 });
const locks = new Map();

// acquire makes the given number of attempts, -1 for any number. If node-redlock made them itself, it
// would keep the servers of a failed attempt until its TTL ends, and not count them at the next one.
async function acquire(key, ttl, attempts) {
  for (;;) {
    try {
      return await redlock.acquire([key], ttl);
    } catch (error) {
      if (!(error instanceof ExecutionError) || --attempts === 0) throw error;
    }
    await new Promise((next) => setTimeout(next, 2 * Math.random()));
  }
}

// version returns the version of a package. Not every package exports its description.
const version = (name) =>
  JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;

// heldOr returns whether the call found the lock held.
async function heldOr(call) {
  try {
    await call();
    return { held: true };
  } catch (error) {
    if (error instanceof ExecutionError) return { held: false };
    throw error;
  }
}

// now returns Unix nanoseconds. Date.now has whole milliseconds only.
const now = () => Math.round((performance.timeOrigin + performance.now()) * 1e6);

const actions = {
  hello: async () => ({
    version: `redlock ${version("redlock")}, ioredis ${version("ioredis")}, Node.js ${process.version}`,
  }),

  acquire: ({ key, ttl, wait = 0 }) =>
    heldOr(async () => locks.set(key, await acquire(key, ttl, wait + 1))),

  extend: ({ key, ttl }) => heldOr(async () => locks.set(key, await locks.get(key).extend(ttl))),

  release: ({ key }) => {
    const lock = locks.get(key);
    locks.delete(key);
    return heldOr(() => lock.release());
  },

  rounds: async ({ key, ttl, counter, n }) => {
    const turns = [];
    for (let i = 0; i < n; i++) {
      const lock = await acquire(key, ttl, -1);
      const begin = now();
      const value = Number((await client.get(counter)) ?? 0);
      await client.set(counter, value + 1);
      turns.push([begin, now()]);
      await lock.release();
    }
    return { turns };
  },

  watch: ({ key, ttl }) =>
    new Promise((answer, fail) => {
      redlock
        .using([key], ttl, { automaticExtensionThreshold: ttl / 2 }, async () => {
          const released = new Promise((release) => locks.set(key, { release: async () => release() }));
          answer({ held: true });
          await released;
        })
        .catch(fail);
    }),
};

const lines = createInterface({ input: process.stdin });
lines.on("close", () => process.exit()); // also while a request waits
for await (const line of lines) {
  let answer;
  try {
    const request = JSON.parse(line);
    answer = await actions[request.do](request);
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
