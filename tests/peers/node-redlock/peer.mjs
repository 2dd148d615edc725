// node-redlock: see ../README.md.

import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";

const require = createRequire(import.meta.url);
const { default: Redlock, ExecutionError } = require("redlock");

const DELAY = 10;
const addresses = process.argv.slice(2);
const { version } = JSON.parse(readFileSync(new URL("node_modules/redlock/package.json", import.meta.url)));

const say = (object) => process.stdout.write(JSON.stringify(object) + "\n");

function connect() {
  const servers = addresses.map((address) => {
    const [host, port] = address.split(":");
    return new Redis(Number(port), host);
  });
  const settings = { retryCount: -1, retryDelay: DELAY, retryJitter: DELAY / 2 };
  return { one: new Redlock(servers.slice(0, 1), settings), all: new Redlock(servers, settings), redis: servers[0] };
}

// Adds one to what is stored, under the lock; says whether somebody else had been there last.
async function add(redis, key) {
  const text = (await redis.get(key)) ?? "";
  const again = (await redis.get(key)) ?? "";
  if (again !== text) throw new Error(`"${text}" has become "${again}" under the lock`);
  const [number, last] = text.split(" ");
  await redis.set(key, `${Number(number) + 1} node-redlock`);
  return text !== "" && last !== "node-redlock";
}

// Its own retries keep what an attempt has got on a minority of the servers, until that has expired, and do not count it in the next
// one. Of several programs each then has some servers and nobody a majority. An acquire that fails gives all of it back.
async function acquireAnew(locks, name) {
  for (;;) {
    try {
      return await locks.acquire([name], 30_000, { retryCount: 0 });
    } catch (error) {
      if (!(error instanceof ExecutionError)) throw error;
      await sleep(DELAY * (0.5 + Math.random()));
    }
  }
}

async function counted(locks, redis, { name, count, pause }, waits, met) {
  for (let i = 0; i < count; i++) {
    const start = performance.now();
    const lock = await acquireAnew(locks, name);
    waits.push(Math.round((performance.now() - start) * 1000));
    if (await add(redis, `${name}:count`)) met.count++;
    await lock.release();
    await sleep(Math.random() * pause);
  }
}

async function work(locks, pairs, names, end, waits) {
  while (performance.now() < end) {
    const start = performance.now();
    const lock = await locks.acquire(names, 30_000);
    const granted = performance.now();
    await lock.release();
    const done = pairs ? performance.now() : granted;
    waits.push(Math.round((done - start) * 1000));
  }
}

say({
  name: "node-redlock",
  version,
  settings: `ioredis, one connection; tries again after ${DELAY} ± ${DELAY / 2} ms`,
  kinds: ["mutex", "eight", "redlock"],
});

const clients = [];
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  while (clients.length < order.clients) clients.push(connect());
  const waits = Array.from({ length: order.clients }, () => []);
  const began = performance.now();
  const used = process.cpuUsage();
  const end = began + (order.millis ?? 0);
  const tasks = [];
  const met = { count: 0 };
  for (let number = 0; number < order.tasks; number++) {
    const which = number % order.clients;
    const pairs = order.work === "pairs";
    const name = pairs ? `${order.name}:${number}` : order.name;
    const names = order.kind === "eight" ? Array.from({ length: 8 }, (_, i) => `${name}:${i}`) : [name];
    const locks = order.kind === "redlock" ? clients[which].all : clients[which].one;
    if (order.work === "counted") tasks.push(counted(locks, clients[which].redis, order, waits[which], met));
    else tasks.push(work(locks, pairs, names, end, waits[which]));
  }
  await Promise.all(tasks);
  const { user, system } = process.cpuUsage(used);
  say({ waits, seconds: (performance.now() - began) / 1000, processor: user + system, met: met.count });
}
process.exit(0);
