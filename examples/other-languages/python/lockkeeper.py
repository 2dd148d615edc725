"""The mutex and the fair lock of Lockkeeper for asyncio, over redis-py: written from docs/wire-format.md.

    async with Client("redis://127.0.0.1:6379") as client:
        async with client.fair("printer") as lease:
            print("token for the ledger:", lease.token)
            lease.ensure_held()

It excludes, wakes and queues with every other client of these locks, whatever its language. The README says what is left out.
"""

import asyncio
import functools
import hashlib
import itertools
import pathlib
import secrets
import time
import uuid
from binascii import crc_hqx

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, NoScriptError, TimeoutError

LUA = pathlib.Path(__file__).resolve().parents[3] / "lua"
STANDING = "client lease wake value members standing holding admit settle queue waiters place turns"
# What is joined in front of each script, as the table in docs/wire-format.md has it.
FRAGMENTS = {
    "acquire": f"clock token take_free {STANDING} stand enter",
    "heartbeat": f"clock token {STANDING} heartbeat",
    "renew": "lease value",
    "renew_inflated": "clock client lease value members",
    "release_thin": "let_go wake value thin",
    "release": f"clock token {STANDING.replace('value', 'value thin')}",
}
NO_ANSWER = (ConnectionError, TimeoutError)
# A clock that goes on while the machine sleeps, where there is one.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Lost(Exception):
    """The lease has ended: somebody else may hold."""


class Refused(Exception):
    """The server has answered something else than an acquisition can go on with."""


class Gone(Exception):
    """The place in the queue is lost: nobody was heard for one waiter ttl."""


def now():
    return time.clock_gettime(CLOCK)


def load(name):
    files = [LUA / "shared" / f"{it}.lua" for it in FRAGMENTS[name].split()] + [LUA / "lock" / f"{name}.lua"]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return text, hashlib.sha1(text.encode()).hexdigest()


def texts(reply):
    if isinstance(reply, list):
        return [texts(it) for it in reply]
    return reply.decode() if isinstance(reply, bytes) else reply


def slot(text):
    return crc_hqx(text.encode(), 0) % 16384


@functools.lru_cache(maxsize=16384)
def in_slot(namespace, number):
    texts = (f"{namespace}:{it:06}" for it in range(1_000_000))
    return next(text for text in texts if slot(text) == number)


class Name:
    """The keys of a lock."""

    def __init__(self, namespace, name):
        if not name or not namespace or set("{}") & set(namespace + name) or ":" in namespace:
            raise ValueError("a namespace and a name are needed, without braces; the namespace without colons")
        self.main = f"{namespace}:{name}"
        self.counter = "lockkeeper.fence:{%s}" % in_slot(namespace, slot(self.main))

    def key(self, part):
        return "lockkeeper.%s:{%s}" % (part, self.main)


class Client:
    """One connection pool for scripts, one connection for messages."""

    def __init__(self, url, namespace="lockkeeper", waiter_ttl=10.0, timeout=2.0):
        # Only the acquisition knows what else has happened to its claim, so nothing else sends again.
        once = Retry(NoBackoff(), 0)
        self.redis = Redis.from_url(url, socket_timeout=timeout, retry=once)
        self.messages = Redis.from_url(url, retry=once).pubsub()
        self.namespace, self.waiter_ttl, self.uuid = namespace, waiter_ttl, str(uuid.uuid4())
        self.requests, self.owners = itertools.count(1), itertools.count(1)
        self.scripts = {name: load(name) for name in FRAGMENTS}
        # The largest token seen of each counter; the claims that are alive; who wants which channel, and whether it is subscribed to.
        self.floors, self.claims, self.channels, self.background = {}, {}, {}, set()

    async def __aenter__(self):
        own = f"lockkeeper.client:{self.uuid}"
        self.channels[own] = [1, asyncio.Event()]
        await self.messages.subscribe(own)
        self.listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_):
        await asyncio.gather(*self.background)
        self.listening.cancel()
        await self.messages.aclose()
        await self.redis.aclose()

    def mutex(self, name, ttl=30.0):
        return Lock(self, name, "mutex", ttl)

    def fair(self, name, ttl=30.0):
        return Lock(self, name, "fair", ttl)

    async def run(self, script, number, keys, *args):
        text, sha1 = self.scripts[script]
        words = [len(keys), *keys, number, *args]
        try:
            reply = await self.redis.evalsha(sha1, *words)
        except NoScriptError:
            reply = await self.redis.eval(text, *words)
        echoed, *answer = reply.decode().split() if isinstance(reply, bytes) else texts(reply)
        if int(echoed) != number:
            raise ConnectionError(f"request {number} was given the answer to {echoed}")
        return answer

    async def _listen(self):
        while True:
            try:
                message = await self.messages.get_message(timeout=None)
            except NO_ANSWER:
                # The next call connects and subscribes anew. What is missed is found by heartbeats and renewals.
                await asyncio.sleep(0.1)
                continue
            if message is None:
                continue
            if message["type"] == "subscribe" and (channel := self.channels.get(message["channel"].decode())):
                channel[1].set()
            elif message["type"] == "message":
                word, claim, *rest = message["data"].decode().split()
                lease = self.claims.get(claim)
                if lease and word == "G":
                    lease.granted_by_message(int(rest[0]), int(rest[1]))
                elif lease and word in ("revoked", "gone"):
                    lease.end(word)

    async def listen(self, channel):
        """Returns when every message on the channel arrives."""
        if channel not in self.channels:
            self.channels[channel] = [0, asyncio.Event()]
            await self.messages.subscribe(channel)
        self.channels[channel][0] += 1
        await self.channels[channel][1].wait()

    async def listen_no_more(self, channel):
        self.channels[channel][0] -= 1
        if not self.channels[channel][0]:
            del self.channels[channel]
            await self.messages.unsubscribe(channel)

    def later(self, work):
        task = asyncio.create_task(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)


class Lock:
    def __init__(self, client, name, kind, ttl):
        self.client, self.name, self.kind, self.ttl = client, Name(client.namespace, name), kind, ttl

    async def acquire(self):
        """Waits in the queue until it holds. Cancelled, it leaves the queue in the background."""
        while True:
            lease = Lease(self)
            try:
                await lease.acquire()
                return lease
            except Gone:
                self.client.later(lease.release())
            except BaseException:
                self.client.later(lease.release())
                raise

    async def __aenter__(self):
        self.lease = await self.acquire()
        return self.lease

    async def __aexit__(self, *_):
        await self.lease.release()


class Lease:
    """One claim. It waits, holds and goes, and its id is not used again."""

    def __init__(self, lock):
        self.lock, self.client, self.name, self.ttl = lock, lock.client, lock.name, lock.ttl
        # A grant by message lasts for as long as the waiter is alive: not for longer than the lease would.
        self.waiter_ttl = min(self.client.waiter_ttl, max(self.ttl, 1.0))
        self.claim = f"{self.client.uuid}:{next(self.client.owners)}/{secrets.token_hex(8)}"
        self.token = self.deadline = self.reason = self.renewing = None
        # Granted at once, and nothing else heard of since; an acquire has no answer and may still be executed.
        self.alone, self.in_doubt = True, False
        self.sent, self.granted, self.lost = {}, asyncio.Event(), asyncio.Event()
        self.client.claims[self.claim] = self

    def ensure_held(self):
        if self.reason or self.token is None or now() >= self.deadline:
            raise Lost(self.reason or "expired")

    def end(self, reason):
        self.reason = self.reason or reason
        self.lost.set()

    def _keys(self, parts):
        own = {"main": self.name.main, "counter": self.name.counter, "gone": f"{self.name.key('gone')}:{self.claim}"}
        return [own.get(part) or self.name.key(part) for part in parts.split()]

    def _ms(self, seconds):
        return round(seconds * 1000)

    async def _ask(self, script, parts, *args):
        """Asks, and again while the server has more to do; with when that was."""
        while True:
            number = next(self.client.requests)
            sent = now()
            if self.token is None:
                self.sent[number] = sent
            status, *fields = await self.client.run(script, number, self._keys(parts), self.claim, *args)
            if status == "DONE":
                status, *fields = fields[0] if isinstance(fields[0], list) else fields
            if status != "MORE":
                return sent, status, fields

    def _common(self):
        floor = self.client.floors.get(self.name.counter, 0)
        return self._ms(self.ttl), floor, self._ms(self.waiter_ttl), self.name.key("grant"), self.reenters

    @property
    def reenters(self):
        return 1 if self.lock.kind == "fair" else 0

    def _held(self, token, sent, ttl):
        """The lease lasts from when the request was sent, less a margin for clocks that differ."""
        self.token = token
        floors, counter = self.client.floors, self.name.counter
        floors[counter] = max(floors.get(counter, 0), token)
        self.deadline = max(self.deadline or 0, sent + ttl * 0.99 - 0.005)
        self.granted.set()

    def granted_by_message(self, token, request):
        self.alone = False
        if self.token is None and request in self.sent:
            self._held(token, self.sent[request], self.waiter_ttl)

    async def acquire(self):
        left = await self._enter()
        if left is not None:
            self.alone = False
            await self._wait()
        self.renewing = asyncio.create_task(self._keep())

    async def _enter(self):
        """Asks until the server knows: None if the claim holds, or for how long others do at least."""
        patience = now() + self.ttl
        while True:
            try:
                sent, status, fields = await self._acquire(0)
            except NO_ANSWER:
                if now() > patience:
                    raise
                await asyncio.sleep(0.1)
                continue
            if status == "GRANTED":
                return self._held(int(fields[0]), sent, self.ttl)
            if status != "WAITING":
                raise Refused(f"{self.name.main}: {status} {fields}")
            return int(fields[0])

    async def _acquire(self, token):
        ttl, floor, waiter_ttl, channel, reenters = self._common()
        parts = "main counter gone holders queue state"
        before, self.in_doubt = self.in_doubt, True
        asked = await self._ask(
            "acquire", parts, ttl, floor, token, self.lock.kind, "x", 0, waiter_ttl, channel, -1, reenters
        )
        self.in_doubt = before
        return asked

    async def _wait(self):
        told = f"{self.name.key('grant')}:{self.client.uuid}"
        await self.client.listen(told)
        try:
            # The first of them finds what was told before anybody listened.
            left = 0
            while not self.granted.is_set():
                try:
                    await asyncio.wait_for(self.granted.wait(), min(left, self.waiter_ttl / 3))
                except asyncio.TimeoutError:
                    left = await self._heartbeat()
        finally:
            await self.client.listen_no_more(told)

    async def _heartbeat(self):
        """For how long it may sleep: the first in the queue looks when the lease of the holder has ended."""
        ttl, floor, waiter_ttl, channel, reenters = self._common()
        args = (ttl, floor, self.lock.kind, "x", waiter_ttl, channel, reenters)
        try:
            sent, status, fields = await self._ask("heartbeat", "main counter holders queue state", *args)
        except NO_ANSWER:
            return self.waiter_ttl / 6
        if status == "GRANTED":
            self._held(int(fields[0]), sent, self.ttl)
        elif status == "GONE":
            raise Gone()
        elif status != "WAITING":
            raise Refused(f"{self.name.main}: {status}")
        elif len(fields) > 1 and int(fields[1]) >= 0:
            return int(fields[1]) / 1000 + 0.005
        return self.waiter_ttl

    async def _keep(self):
        """Renews until the lease is lost. What holds from a queue has a waiter's ttl alone, so it is renewed at once."""
        due = now() + (self.ttl / 3 if self.alone else 0)
        while self.reason is None:
            left = self.deadline - now()
            if left <= 0:
                return self.end("expired")
            try:
                if now() < due:
                    await asyncio.wait_for(self.lost.wait(), min(left, due - now()))
                else:
                    due = now() + self.ttl / 3
                    await asyncio.wait_for(self._renew(), left)
            except NO_ANSWER:
                due = now() + self.ttl / 6
            except asyncio.TimeoutError:
                pass

    async def _renew(self):
        if self.in_doubt:
            # A copy of the acquire may bring the claim back by another grant, so the token is looked at.
            sent, status, fields = await self._acquire(self.token)
            status = "RENEWED" if status == "GRANTED" and int(fields[0]) == self.token else status
        elif self.alone:
            sent, status, _ = await self._ask("renew", "main", self._ms(self.ttl))
            if status == "INFLATED":
                self.alone = False
                return await self._renew()
        else:
            sent, status, _ = await self._ask("renew_inflated", "main holders holders", self._ms(self.ttl), "x")
        if status == "RENEWED":
            return self._held(self.token, sent, self.ttl)
        self.end("revoked" if status == "REVOKED" else "gone")

    async def release(self):
        """Whether it held until now. Repeated until the server answers, for 5 s."""
        self.end("released")
        if self.renewing:
            self.renewing.cancel()
        del self.client.claims[self.claim]
        end = now() + 5
        while True:
            try:
                return await self._release()
            except NO_ANSWER:
                if now() > end:
                    raise
                await asyncio.sleep(0.1)

    async def _release(self):
        ttl, floor, waiter_ttl, channel, reenters = self._common()
        if self.alone and not self.in_doubt and self.token is not None:
            _, status, _ = await self._ask("release_thin", "main", channel, 0)
            if status != "INFLATED":
                return status == "RELEASED"
        parts = "main counter gone holders queue state"
        tombstone_ttl = ttl if self.in_doubt else 0
        args = (self.lock.kind, "x", channel, 0, tombstone_ttl, floor, waiter_ttl, reenters)
        _, status, _ = await self._ask("release", parts, *args)
        return status == "RELEASED"
