"""The client in examples/other-languages/python: see ../README.md. Beside the work of the others it takes single steps of locks by
number, so that a test decides what happens when."""

import asyncio
import json
import pathlib
import random
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "examples/other-languages/python"))

from lockkeeper import Client  # noqa: E402
from redis.asyncio import Redis  # noqa: E402


async def counted(client, redis, order, waits, met):
    lock = (client.fair if order["kind"] == "fair" else client.mutex)(order["name"])
    key = order["name"] + ":count"
    for _ in range(order["count"]):
        start = time.perf_counter()
        async with lock as lease:
            waits.append(round((time.perf_counter() - start) * 1e6))
            text, again = await redis.get(key), await redis.get(key)
            if again != text:
                raise RuntimeError(f"{text} has become {again} under the lock")
            number, last = (text or b"0 nobody").decode().split()
            met.append(text is not None and last != "python")
            await redis.set(key, f"{int(number) + 1} python")
            lease.ensure_held()
        await asyncio.sleep(random.uniform(0, order["pause"] / 1000))


async def work(url, order):
    waits, met = [[] for _ in range(order["clients"])], []
    began = time.monotonic()
    async with asyncio.TaskGroup() as clients:
        for which in range(order["clients"]):
            clients.create_task(of_one_client(url, order, waits[which], met))
    return {"waits": waits, "seconds": time.monotonic() - began, "met": sum(met)}


async def of_one_client(url, order, waits, met):
    async with Client(url) as client, Redis.from_url(url) as redis, asyncio.TaskGroup() as tasks:
        for _ in range(order["tasks"] // order["clients"]):
            # One Lock for each task: it remembers the lease of its `async with`.
            tasks.create_task(counted(client, redis, order, waits, met))


class Steps:
    """Locks that are acquired, one number each."""

    def __init__(self, client):
        self.client, self.tasks = client, {}

    async def begin(self, order):
        lock = getattr(self.client, order["kind"])(order["name"], order["ttl"])
        self.tasks[order["number"]] = asyncio.create_task(lock.acquire())
        return {}

    async def granted(self, order):
        lease = await self.tasks[order["number"]]
        return {"token": lease.token, "claim": lease.claim}

    async def held(self, order):
        lease = await self.tasks[order["number"]]
        return {"held": lease.reason is None}

    async def lost(self, order):
        lease = await self.tasks[order["number"]]
        await lease.lost.wait()
        return {"reason": lease.reason}

    async def release(self, order):
        lease = await self.tasks[order["number"]]
        return {"released": await lease.release()}

    async def cancel(self, order):
        task = self.tasks[order["number"]]
        task.cancel()
        await asyncio.wait([task])
        return {"cancelled": task.cancelled()}


async def serve(url):
    loop = asyncio.get_running_loop()
    steps = {}
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        if order.get("work") == "counted":
            answer = await work(url, order)
        elif order["do"] == "client":
            client = await Client(url, waiter_ttl=order["waiter_ttl"]).__aenter__()
            steps, answer = Steps(client), {}
        else:
            answer = await getattr(steps, order["do"])(order)
        print(json.dumps(answer), flush=True)


def main():
    about = {"name": "python-client", "version": "as it is here", "settings": "asyncio", "kinds": ["mutex", "fair"]}
    print(json.dumps(about), flush=True)
    asyncio.run(serve(f"redis://{sys.argv[1]}"))


main()
