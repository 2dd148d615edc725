// node-redlock: see ../README.md.

import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import Redis from "ioredis";

const require = createRequire(import.meta.url);
const Redlock = require("redlock").default;

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
  return { one: new Redlock(servers.slice(0, 1), settings), all: new Redlock(servers, settings) };
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
  const end = began + order.millis;
  const tasks = [];
  for (let number = 0; number < order.tasks; number++) {
    const which = number % order.clients;
    const pairs = order.work === "pairs";
    const name = pairs ? `${order.name}:${number}` : order.name;
    const names = order.kind === "eight" ? Array.from({ length: 8 }, (_, i) => `${name}:${i}`) : [name];
    const locks = order.kind === "redlock" ? clients[which].all : clients[which].one;
    tasks.push(work(locks, pairs, names, end, waits[which]));
  }
  await Promise.all(tasks);
  const { user, system } = process.cpuUsage(used);
  say({ waits, seconds: (performance.now() - began) / 1000, processor: user + system });
}
process.exit(0);
