// The peer that uses node-redlock. The package documentation of interop describes the protocol.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import Redis from "ioredis";
import Redlock, { ExecutionError } from "redlock";

const [host, port] = process.argv[2].split(":");
const client = new Redis({ host, port: Number(port) });
const redlock = new Redlock([client], { retryDelay: 1, retryJitter: 1, retryCount: 0 });
const locks = new Map();

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

const now = () => Number(process.hrtime.bigint() + epoch);
const epoch = BigInt(Date.now()) * 1000000n - process.hrtime.bigint();

const actions = {
  hello: async () => ({
    version: `redlock ${version("redlock")}, ioredis ${version("ioredis")}, Node.js ${process.version}`,
  }),

  acquire: ({ key, ttl, wait = 0 }) =>
    heldOr(async () => locks.set(key, await redlock.acquire([key], ttl, { retryCount: wait }))),

  extend: ({ key, ttl }) => heldOr(async () => locks.set(key, await locks.get(key).extend(ttl))),

  release: ({ key }) => {
    const lock = locks.get(key);
    locks.delete(key);
    return heldOr(() => lock.release());
  },

  rounds: async ({ key, ttl, counter, n }) => {
    const turns = [];
    for (let i = 0; i < n; i++) {
      const lock = await redlock.acquire([key], ttl, { retryCount: -1 });
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

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const request = JSON.parse(line);
    answer = await actions[request.do](request);
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
client.disconnect();
