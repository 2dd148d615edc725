"""The mutex and the fair lock of Lockkeeper for asyncio, over redis-py: written from docs/wire-format.md.

    async with Client("redis://127.0.0.1:6379") as client:
        async with client.fair("printer") as lease:
            print("token for the ledger:", lease.token)
            lease.ensure_held()

It excludes, wakes and queues with every other client of these locks, whatever its language. The README says what is left out.
"""

import asyncio
import contextlib
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
from redis.exceptions import ConnectionError, NoScriptError, RedisError, ResponseError, TimeoutError

LUA = pathlib.Path(__file__).resolve().parents[3] / "lua"
STANDING = "client lease wake value members standing holding admit settle queue waiters place turns"
# What is joined in front of each script, as the table in docs/wire-format.md has it.
FRAGMENTS = {
    "acquire": f"clock token take_free {STANDING} stand enter",
    "heartbeat": f"clock token {STANDING} heartbeat",
    "renew": "lease value",
    "renew_inflated": "clock client lease value members",
    "take": "take token value",
    "release": f"clock token {STANDING.replace('value', 'value thin')}",
}
# The counter at its end: no token.
NO_TOKEN = 2**53 - 1
# How far a token may be ahead of this machine's clock: it is a number of microseconds since 1970.
AHEAD = 86_400_000_000
NO_ANSWER = (ConnectionError, TimeoutError)
# How long the confirmation of a subscription may take before it is asked for again, s.
UNCONFIRMED = 1.0
# A clock that goes on while the machine sleeps, where there is one.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Lost(Exception):
    """The lease has ended: somebody else may hold."""


class Refused(Exception):
    """The server has answered something else than an acquisition can go on with."""


class Gone(Exception):
    """The claim is over before its client has held: its place in the queue is lost, or it is revoked. A new one asks."""


def now():
    return time.clock_gettime(CLOCK)


async def within(event, seconds):
    """Waits for an event, for so long at most."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except asyncio.TimeoutError:
        pass


def cancellations():
    return asyncio.current_task().cancelling()


def heed(before):
    """Ends a task that was cancelled since. If an answer comes at the same moment, redis-py on Python 3.11 returns that instead."""
    if cancellations() > before:
        raise asyncio.CancelledError


async def stop(task):
    """Cancels a task until it has ended."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.1)


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


class Channel:
    """What the claims that listen to one channel share."""

    def __init__(self):
        self.listeners, self.confirmed = 0, asyncio.Event()


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
        # The largest token seen of each counter; the claims that are alive; the channels that somebody listens to.
        self.floors, self.claims, self.channels, self.background = {}, {}, {}, set()
        self.listening, self.subscribing = None, asyncio.Lock()

    async def __aenter__(self):
        before, own = cancellations(), f"lockkeeper.client:{self.uuid}"
        self.channels[own] = Channel()
        try:
            await self.messages.subscribe(own)
            heed(before)
        except BaseException:
            await self._close()
            raise
        self.listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_):
        """Ends every acquisition and waits for releases. What is still held ends with its lease: the work under it may go on."""
        for lease in list(self.claims.values()):
            lease.end("closed")
        try:
            while self.background or any(lease.renewing is None for lease in self.claims.values()):
                await asyncio.wait([*self.background, asyncio.create_task(asyncio.sleep(0.01))])
        finally:
            await self._close()

    async def _close(self):
        try:
            if self.listening:
                await stop(self.listening)
        finally:
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
            except RedisError:
                # The next call connects and subscribes anew. What is missed is found by heartbeats and renewals.
                await asyncio.sleep(0.1)
                continue
            if message is None:
                continue
            if message["type"] == "subscribe" and (channel := self.channels.get(message["channel"].decode())):
                channel.confirmed.set()
            elif message["type"] == "message":
                self._told(message["data"].decode().split())

    def _told(self, words):
        match words:
            case ["G", claim, token, request, *_] if lease := self.claims.get(claim):
                lease.granted_by_message(int(token), int(request))
            case ["revoked" | "gone" as word, claim, *_] if lease := self.claims.get(claim):
                lease.end(word)

    def listen(self, name):
        """Subscribes in the background until that is confirmed. Whoever listens goes on without messages meanwhile."""
        channel = self.channels.get(name)
        if channel is None:
            channel = self.channels[name] = Channel()
            self.later(self._subscribe(name, channel))
        channel.listeners += 1
        return channel

    def listen_no_more(self, name):
        channel = self.channels[name]
        channel.listeners -= 1
        if not channel.listeners:
            del self.channels[name]
            channel.confirmed.set()
            self.later(self._unsubscribe(name))

    async def _subscribe(self, name, channel):
        while not channel.confirmed.is_set():
            with contextlib.suppress(RedisError):
                async with self.subscribing:
                    await self.messages.subscribe(name)
            await within(channel.confirmed, UNCONFIRMED)

    async def _unsubscribe(self, name):
        with contextlib.suppress(RedisError):
            async with self.subscribing:
                if name not in self.channels:
                    await self.messages.unsubscribe(name)

    def later(self, work):
        task = asyncio.create_task(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)
        return task


class Lock:
    def __init__(self, client, name, kind, ttl):
        self.client, self.name, self.kind, self.ttl = client, Name(client.namespace, name), kind, ttl

    async def acquire(self):
        """Waits in the queue until it holds. Cancelled, it leaves the queue in the background."""
        before = cancellations()
        while True:
            lease = Lease(self)
            try:
                await lease.acquire(before)
                return lease
            except Gone:
                lease.leave()
            except BaseException:
                lease.leave()
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
        self.floor = self.client.floors.get(self.name.counter, 0)
        self.token = self.deadline = self.reason = self.renewing = self.releasing = None
        # Granted at once, and nothing else heard of since; an acquire has no answer and may still be executed.
        self.alone, self.in_doubt = True, False
        self.sent, self.decided, self.lost = {}, asyncio.Event(), asyncio.Event()
        self.client.claims[self.claim] = self

    def ensure_held(self):
        if self.reason or self.token is None or now() >= self.deadline:
            raise Lost(self.reason or "expired")

    def end(self, reason):
        self.reason = self.reason or reason
        self.lost.set()
        self.decided.set()

    def _keys(self, parts):
        gone = f"{self.name.key('gone')}:{self.claim[:8]}/{self.claim[-16:]}"
        own = {"main": self.name.main, "counter": self.name.counter, "gone": gone}
        return [own.get(part) or self.name.key(part) for part in parts.split()]

    def _ms(self, seconds):
        return round(seconds * 1000)

    def _value(self):
        """What stands under the name while the claim holds alone, up to the token."""
        return f"{self.lock.kind} x {self.claim} "

    async def _ask(self, script, parts, *args, first=None):
        """Asks, and again while the server has more to do; with when that was."""
        while True:
            number = next(self.client.requests)
            sent = now()
            if self.token is None:
                self.sent[number] = sent
            status, *fields = await self.client.run(script, number, self._keys(parts), first or self.claim, *args)
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

    def _may_have_drawn(self, token):
        return self.floor < token < NO_TOKEN

    def _granted(self, token, sent):
        if token >= NO_TOKEN:
            raise Refused(f"the counter {self.name.counter} is at its end, so nobody gets a token: delete this key")
        if not self._may_have_drawn(token):
            # An earlier token of this counter was larger: a resource would refuse this one.
            raise Gone
        self._held(token, sent, self.ttl)

    def _held(self, token, sent, ttl):
        """The lease lasts from when the request was sent, less a margin for clocks that differ."""
        self.token = token
        floors, counter = self.client.floors, self.name.counter
        floors[counter] = max(floors.get(counter, 0), token)
        self.deadline = max(self.deadline or 0, sent + ttl * 0.99 - 0.005)
        self.decided.set()

    def granted_by_message(self, token, request):
        self.alone = False
        # A message is a hint, which anybody may send: if it cannot be true, a heartbeat finds out what is.
        plausible = self._may_have_drawn(token) and token < time.time() * 1_000_000 + AHEAD
        if self.token is None and request in self.sent and plausible:
            self._held(token, self.sent[request], self.waiter_ttl)

    async def acquire(self, before):
        """Raises if the task was cancelled more often than `before`, even if it has been granted."""
        left = await self._enter(before)
        if left is not None:
            self.alone = False
            await self._wait(before)
        self._go_on(before)
        self.renewing = asyncio.create_task(self._keep())

    def _go_on(self, before):
        heed(before)
        if self.reason:
            raise Lost(self.reason) if self.reason == "closed" else Gone

    async def _enter(self, before):
        """Asks until the server knows: None if the claim holds, or for how long others do at least."""
        patience = now() + self.ttl
        while True:
            self._go_on(before)
            try:
                sent, status, fields = await self._acquire(0)
            except NO_ANSWER:
                if now() > patience:
                    raise
                await asyncio.sleep(0.1)
                continue
            if status == "GRANTED":
                return self._granted(int(fields[0]), sent)
            if status in ("GONE", "REVOKED"):
                raise Gone
            if status != "WAITING":
                raise Refused(f"{self.name.main}: {status} {fields}")
            return int(fields[0])

    async def _acquire(self, token):
        ttl, floor, waiter_ttl, channel, reenters = self._common()
        parts = "main counter gone holders queue state"
        before, self.in_doubt = self.in_doubt, True
        if not before and token == 0:
            sent, status, fields = await self._ask("take", "main counter gone", ttl, floor, 0, first=self._value())
            if status == "GRANTED":
                self.in_doubt = False
                return sent, status, fields
        asked = await self._ask(
            "acquire", parts, ttl, floor, token, self.lock.kind, "x", 0, waiter_ttl, channel, -1, reenters
        )
        self.in_doubt = before
        return asked

    async def _wait(self, before):
        told = f"{self.name.key('grant')}:{self.client.uuid}"
        channel = self.client.listen(told)
        try:
            while not self.decided.is_set():
                # The heartbeat behind the confirmation finds what was told before anybody listened.
                await within(channel.confirmed, self.waiter_ttl / 6)
                left = await self._heartbeat()
                self._go_on(before)
                await within(self.decided, min(left, self.waiter_ttl / 3))
        finally:
            self.client.listen_no_more(told)

    async def _heartbeat(self):
        """For how long it may sleep: the first in the queue looks when the lease of the holder has ended."""
        ttl, floor, waiter_ttl, channel, reenters = self._common()
        args = (ttl, floor, self.lock.kind, "x", waiter_ttl, channel, reenters)
        try:
            sent, status, fields = await self._ask("heartbeat", "main counter holders queue state", *args)
        except NO_ANSWER:
            return self.waiter_ttl / 6
        if status == "GRANTED":
            self._granted(int(fields[0]), sent)
        elif status in ("GONE", "REVOKED"):
            raise Gone
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
                    await within(self.lost, min(left, due - now()))
                else:
                    due = now() + self.ttl / 3
                    async with asyncio.timeout(left):
                        await self._renew()
            except asyncio.TimeoutError:
                pass
            except Exception:
                # Whatever the server has answered: nobody else would say that the lease is over.
                due = now() + self.ttl / 6

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
        if now() >= self.deadline:
            # It has been over meanwhile, which somebody may have seen.
            return self.end("expired")
        if status == "RENEWED":
            return self._held(self.token, sent, self.ttl)
        self.end("revoked" if status == "REVOKED" else "gone")

    async def release(self):
        """Whether it held until now. Repeated until the server answers, for 5 s; if this is cancelled, in the background."""
        return await asyncio.shield(self.leave())

    def leave(self):
        """The task that releases it."""
        self.end("released")
        self.client.claims.pop(self.claim, None)
        self.releasing = self.releasing or self.client.later(self._leave())
        return self.releasing

    async def _leave(self):
        if self.renewing:
            await stop(self.renewing)
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
            try:
                if await self.client.redis.lrem(self.name.main, 1, f"{self._value()}{self.token}") == 1:
                    return True
            except ResponseError:
                pass  # Something else stands there: the release says what.
        parts = "main counter gone holders queue state"
        tombstone_ttl = ttl if self.in_doubt else 0
        args = (self.lock.kind, "x", channel, 0, tombstone_ttl, floor, waiter_ttl, reenters)
        _, status, _ = await self._ask("release", parts, *args)
        return status == "RELEASED"
