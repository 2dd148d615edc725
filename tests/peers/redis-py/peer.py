"""redis-py's locks, that of asyncio and that of threads: see ../README.md."""

import asyncio
import json
import random
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor

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


def one_more(text, again, name):
    """What is stored under the lock next, and whether somebody else had been there last."""
    if again != text:
        raise RuntimeError(f"{text} has become {again} under the lock")
    number, last = (text or b"0 nobody").decode().split()
    return f"{int(number) + 1} {name}", text is not None and last != name


async def counted(client, order, waits, met):
    lock = Lock(client, order["name"], timeout=30, sleep=DELAY, thread_local=False)
    key = order["name"] + ":count"
    for _ in range(order["count"]):
        start = time.perf_counter()
        await lock.acquire()
        waits.append(round((time.perf_counter() - start) * 1e6))
        text, others = one_more(await client.get(key), await client.get(key), "asyncio")
        await client.set(key, text)
        met.append(others)
        await lock.release()
        await asyncio.sleep(random.uniform(0, order["pause"] / 1000))


def counted_by_a_thread(client, order, waits, met):
    lock = client.lock(order["name"], timeout=30, sleep=DELAY)
    key = order["name"] + ":count"
    for _ in range(order["count"]):
        start = time.perf_counter()
        lock.acquire()
        waits.append(round((time.perf_counter() - start) * 1e6))
        text, others = one_more(client.get(key), client.get(key), "threads")
        client.set(key, text)
        met.append(others)
        lock.release()
        time.sleep(random.uniform(0, order["pause"] / 1000))


async def finished(future):
    await future


async def serve(host, port):
    clients = []
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        while len(clients) < order["clients"]:
            clients.append(Redis(host=host, port=port, max_connections=1000))
        waits = [[] for _ in range(order["clients"])]
        began, used = time.monotonic(), processor()
        end = began + order.get("millis", 0) / 1000
        met = []
        threads = ThreadPoolExecutor(order["tasks"])
        async with asyncio.TaskGroup() as tasks:
            for number in range(order["tasks"]):
                which = number % order["clients"]
                if order["work"] == "counted" and order["kind"] == "threads":
                    client = redis.Redis(host=host, port=port)
                    done = loop.run_in_executor(threads, counted_by_a_thread, client, order, waits[which], met)
                    tasks.create_task(finished(done))
                    continue
                if order["work"] == "counted":
                    tasks.create_task(counted(clients[which], order, waits[which], met))
                    continue
                name = order["name"]
                if order["work"] == "pairs":
                    name += f":{number}"
                tasks.create_task(task(clients[which], order["work"], name, end, waits[which]))
        answer = {
            "waits": waits,
            "seconds": time.monotonic() - began,
            "processor": (processor() - used) * 1e6,
            "met": sum(met),
        }
        threads.shutdown()
        print(json.dumps(answer), flush=True)


def main():
    about = {
        "name": "redis-py",
        "version": redis.__version__,
        "settings": f"asyncio, hiredis, a connection for each task; tries again after {DELAY * 1000:.0f} ms",
        "kinds": ["mutex", "threads"],
    }
    print(json.dumps(about), flush=True)
    host, port = sys.argv[1].rsplit(":", 1)
    asyncio.run(serve(host, int(port)))


main()
