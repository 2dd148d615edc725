"""redis-py's asyncio lock: see ../README.md."""

import asyncio
import json
import resource
import sys
import time

import redis
from redis.asyncio import Redis
from redis.asyncio.lock import Lock

DELAY = 0.01


def processor():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def task(client, work, name, end, waits):
    while time.monotonic() < end:
        lock = Lock(client, name, timeout=30, sleep=DELAY, thread_local=False)
        start = time.perf_counter()
        await lock.acquire()
        granted = time.perf_counter()
        await lock.release()
        done = time.perf_counter() if work == "pairs" else granted
        waits.append(round((done - start) * 1e6))


async def serve(host, port):
    clients = []
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        while len(clients) < order["clients"]:
            clients.append(Redis(host=host, port=port, max_connections=1000))
        waits = [[] for _ in range(order["clients"])]
        began, used = time.monotonic(), processor()
        end = began + order["millis"] / 1000
        async with asyncio.TaskGroup() as tasks:
            for number in range(order["tasks"]):
                which = number % order["clients"]
                name = order["name"]
                if order["work"] == "pairs":
                    name += f":{number}"
                tasks.create_task(task(clients[which], order["work"], name, end, waits[which]))
        answer = {
            "waits": waits,
            "seconds": time.monotonic() - began,
            "processor": (processor() - used) * 1e6,
        }
        print(json.dumps(answer), flush=True)


def main():
    about = {
        "name": "redis-py",
        "version": redis.__version__,
        "settings": f"asyncio, hiredis, a connection for each task; tries again after {DELAY * 1000:.0f} ms",
        "kinds": ["mutex"],
    }
    print(json.dumps(about), flush=True)
    host, port = sys.argv[1].rsplit(":", 1)
    asyncio.run(serve(host, int(port)))


main()
