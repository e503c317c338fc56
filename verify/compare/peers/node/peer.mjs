// The process of node-redlock. README.md describes the protocol.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const modules = process.env.PEER_MODULES; // the folder that npm has filled
const require = createRequire(`${modules}/peer.js`);
const Redis = require("ioredis").default;
const { default: Redlock, ExecutionError } = require("redlock");

const WATCH = 1;
const WRITE = 10;
const WORK = 5;
const HOLD = 1; // milliseconds
const RETRY = 200; // the retryDelay and the retryJitter of the library
const JITTER = 100;

const addresses = process.argv[2].split(",");
const lease = Number(process.argv[3]);
const sessions = new Map();

const now = () => Number(process.hrtime.bigint()); // CLOCK_MONOTONIC
const send = (message) => process.stdout.write(JSON.stringify(message) + "\n");
const sleep = (ms) => new Promise((next) => setTimeout(next, ms));
const version = (name) => JSON.parse(readFileSync(`${modules}/${name}/package.json`)).version;

function open() {
  const clients = addresses.map((address) => {
    const [host, port] = address.split(":");
    return new Redis({ host, port: Number(port) }).on("error", () => {}); // the calls report it
  });
  return { redlock: new Redlock(clients) };
}

// hold acquires the lock and returns when it is held. held.release releases it. The library counts the
// lease from the first of its own tries, so that a lock would be lost after a wait: this tries again.
async function hold(session, key) {
  for (;;) {
    try {
      return await tryHold(session, key);
    } catch (error) {
      if (!(error instanceof ExecutionError)) throw error;
    }
    await sleep(RETRY + (2 * Math.random() - 1) * JITTER);
  }
}

function tryHold(session, key) {
  return new Promise((got, fail) => {
    const using = session.redlock.using([key], lease, { retryCount: 0 }, (signal) => {
      const work = new Promise((release) => {
        got({
          signal,
          at: now(),
          release: () => {
            release();
            return using;
          },
        });
      });
      return work;
    });
    using.catch(fail);
  });
}

async function watch(name, held) {
  held.stop = false;
  const tell = setInterval(() => {
    if (held.stop) {
      clearInterval(tell);
    } else if (held.signal.aborted) {
      clearInterval(tell);
      send({ event: "told", session: name, at: now() });
    }
  }, WATCH);
  for (;;) {
    await sleep(WRITE);
    if (held.stop || held.signal.aborted) return;
    await sleep(WORK);
    send({ event: "write", session: name, at: now() });
  }
}

const actions = {
  hello: async () => ({
    text: `redlock ${version("redlock")}, ioredis ${version("ioredis")}, Node.js ${process.version}`,
  }),

  open: async ({ session, key }) => {
    const s = open();
    await (await hold(s, key)).release();
    sessions.set(session, s);
    return {};
  },

  acquire: async ({ session, key }) => {
    const s = sessions.get(session);
    s.held = await hold(s, key);
    watch(session, s.held);
    return { at: s.held.at };
  },

  release: async ({ session }) => {
    const { held } = sessions.get(session);
    held.stop = true;
    await held.release();
    return {};
  },

  contend: async ({ session, key, n, ms }) => {
    const counts = new Array(n).fill(0);
    const end = Date.now() + ms;
    const turns = async (i) => {
      while (Date.now() < end) {
        const held = await hold(sessions.get(`${session}${i}`), key);
        if (Date.now() < end) counts[i]++;
        await sleep(HOLD);
        await held.release();
      }
    };
    await Promise.all(counts.map((_, i) => turns(i)));
    return { counts };
  },
};

async function answer(request) {
  let reply;
  try {
    reply = await actions[request.do](request);
  } catch (error) {
    reply = { error: String(error) };
  }
  send({ id: request.id, at: now(), ...reply });
}

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => answer(JSON.parse(line)));
lines.on("close", () => process.exit());
