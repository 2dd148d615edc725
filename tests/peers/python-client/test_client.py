"""What the client in examples/other-languages/python does when a request fails or a task is cancelled, with planned faults between it and
redis-py. Takes the address of a server: python test_client.py 127.0.0.1:6379"""

import asyncio
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "examples/other-languages/python"))

from lockkeeper import Client, Lost, Refused  # noqa: E402
from redis.asyncio import Redis  # noqa: E402
from redis.exceptions import ConnectionError, ResponseError  # noqa: E402

URL = f"redis://{sys.argv.pop(1)}"
# For what must happen, on a machine that stalls, s.
PATIENCE = 60
# A waiter ttl with which no heartbeat comes in time: what is granted before was told by a message.
SELDOM = 10 * PATIENCE


class Between:
    """Passes everything on, except what a test replaces."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)


class FailsOnce(Between):
    """Messages of which one call fails: this one, for a channel that begins like this."""

    def __init__(self, inner, call, error, channel=""):
        super().__init__(inner)
        self.failed = asyncio.Event()

        async def fail(*args, **options):
            if not self.failed.is_set() and "".join(args).startswith(channel):
                self.failed.set()
                raise error
            return await getattr(inner, call)(*args, **options)

        setattr(self, call, fail)


class Swallows(Between):
    """A connection that does as redis-py does when the answer to a request and a cancellation come together: it returns the answer. The
    first request by this script, or without one the first LREM, returns only when it is cancelled."""

    def __init__(self, inner, script=(None, None)):
        super().__init__(inner)
        self.sha1, self.asked = script[1], asyncio.Event()

    async def evalsha(self, sha1, *words):
        answer = await self.inner.evalsha(sha1, *words)
        return await self._late(answer) if sha1 == self.sha1 else answer

    async def lrem(self, *words):
        answer = await self.inner.lrem(*words)
        return answer if self.sha1 else await self._late(answer)

    async def _late(self, answer):
        if self.asked.is_set():
            return answer
        self.asked.set()
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            pass
        return answer


class Refuses(Between):
    """A connection on which requests by this script are refused, after a moment in which something else can wait for that."""

    def __init__(self, inner, script):
        super().__init__(inner)
        self.sha1 = script[1]

    async def evalsha(self, sha1, *words):
        if sha1 == self.sha1:
            await asyncio.sleep(0.05)
            raise ResponseError("READONLY You can't write against a read only replica.")
        return await self.inner.evalsha(sha1, *words)


def soon(work):
    return asyncio.wait_for(work, PATIENCE)


class Tests(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.plain = Redis.from_url(URL)
        await self.plain.flushall()
        # Once the server knows every script, there is one request for each.
        client = Client(URL)
        for text, _ in client.scripts.values():
            await self.plain.script_load(text)
        self.other = await self.enterAsyncContext(Client(URL, waiter_ttl=SELDOM))

    async def asyncTearDown(self):
        await self.plain.aclose()

    async def waiting(self, number):
        async with asyncio.timeout(PATIENCE):
            while await self.plain.zcard("lockkeeper.queue:{lockkeeper:name}") != number:
                await asyncio.sleep(0.002)

    async def free(self):
        """Nobody holds the name or waits for it."""
        async with asyncio.timeout(PATIENCE):
            while await self.plain.exists("lockkeeper:name"):
                await asyncio.sleep(0.002)

    async def test_a_subscription_that_fails_is_repeated_and_nobody_waits_for_ever(self):
        client = Client(URL, waiter_ttl=SELDOM)
        error = ConnectionError("reset by peer")
        client.messages = messages = FailsOnce(client.messages, "subscribe", error, "lockkeeper.grant:")
        async with client:
            held = await self.other.mutex("name", SELDOM).acquire()
            first = asyncio.create_task(client.mutex("name", SELDOM).acquire())
            await self.waiting(1)
            await soon(messages.failed.wait())
            second = asyncio.create_task(client.mutex("name", SELDOM).acquire())
            await self.waiting(2)
            await held.release()
            lease = await soon(first)
            await lease.release()
            lease = await soon(second)
            await lease.release()

    async def test_a_token_that_cannot_be_true_is_refused(self):
        client = Client(URL, waiter_ttl=SELDOM)
        async with client:
            first = await client.mutex("name").acquire()
            await first.release()
            # A server that has lost its counter, and whose clock has gone back.
            client.floors[first.name.counter] += 1
            lease = await soon(client.mutex("name").acquire())
            self.assertGreater(lease.token, first.token + 1)
            waiting = asyncio.create_task(client.mutex("name").acquire())
            await self.waiting(1)
            [forged] = [it for it in client.claims.values() if it is not lease]
            *_, request = forged.sent
            for token in (first.token, 2**53 - 2, 2**64 - 1):
                forged.granted_by_message(token, request)
            self.assertIsNone(forged.token)
            await lease.release()
            await (await soon(waiting)).release()
            # At the end of the counter nobody gets a token.
            await self.plain.set(first.name.counter, 2**53 - 1)
            with self.assertRaisesRegex(Refused, "delete this key"):
                await soon(client.mutex("name").acquire())

    async def test_an_error_among_the_messages_does_not_end_listening(self):
        client = Client(URL, waiter_ttl=SELDOM)
        client.messages = FailsOnce(client.messages, "get_message", ResponseError("NOPERM this user has no permissions"))
        async with client:
            held = await self.other.mutex("name", SELDOM).acquire()
            waiting = asyncio.create_task(client.mutex("name", SELDOM).acquire())
            await self.waiting(1)
            await held.release()
            await (await soon(waiting)).release()

    async def cancelled_in(self, script, client, held=None):
        client.redis = redis = Swallows(client.redis, client.scripts[script])
        acquiring = asyncio.create_task(client.mutex("name", SELDOM).acquire())
        await soon(redis.asked.wait())
        if held:
            # What is told meanwhile must not hold either.
            await held.release()
        acquiring.cancel()
        await asyncio.wait([acquiring], timeout=PATIENCE)
        self.assertTrue(acquiring.cancelled())

    async def test_whoever_is_cancelled_when_the_grant_comes_does_not_hold(self):
        async with Client(URL) as client:
            await self.cancelled_in("take", client)
            await self.free()

    async def test_whoever_is_cancelled_when_it_joins_the_queue_leaves_it(self):
        held = await self.other.mutex("name", SELDOM).acquire()
        async with Client(URL, waiter_ttl=SELDOM) as client:
            await self.cancelled_in("acquire", client)
            await self.waiting(0)
        await held.release()

    async def test_whoever_is_cancelled_in_a_heartbeat_leaves_the_queue(self):
        held = await self.other.mutex("name", SELDOM).acquire()
        async with Client(URL, waiter_ttl=SELDOM) as client:
            await self.cancelled_in("heartbeat", client)
            await self.waiting(0)
        await held.release()

    async def test_whoever_is_cancelled_when_it_is_told_of_its_grant_does_not_hold(self):
        held = await self.other.mutex("name", SELDOM).acquire()
        async with Client(URL, waiter_ttl=SELDOM) as client:
            await self.cancelled_in("heartbeat", client, held)
            await self.free()

    async def test_a_time_limit_ends_an_acquisition_whose_grant_comes_then(self):
        async with Client(URL) as client:
            client.redis = redis = Swallows(client.redis, client.scripts["take"])
            limit = asyncio.timeout(None)

            async def limited():
                async with limit:
                    await client.mutex("name", SELDOM).acquire()

            acquiring = asyncio.create_task(limited())
            await soon(redis.asked.wait())
            limit.reschedule(0)
            with self.assertRaises(asyncio.TimeoutError):
                await acquiring
            await self.free()

    async def test_a_task_that_was_cancelled_may_acquire_what_its_end_needs(self):
        async def work():
            try:
                await asyncio.sleep(SELDOM)
            except asyncio.CancelledError:
                async with self.other.mutex("name") as lease:
                    return lease.token

        working = asyncio.create_task(work())
        await asyncio.sleep(0)
        working.cancel()
        self.assertGreater(await soon(working), 0)

    async def test_a_release_that_is_cancelled_goes_on_and_a_second_one_says_the_same(self):
        async with Client(URL) as client:
            lease = await client.mutex("name", SELDOM).acquire()
            client.redis = redis = Swallows(client.redis)
            releasing = asyncio.create_task(lease.release())
            await soon(redis.asked.wait())
            releasing.cancel()
            await asyncio.wait([releasing], timeout=PATIENCE)
            self.assertTrue(releasing.cancelled())
            # Lets the request end.
            lease.releasing.cancel()
            self.assertTrue(await soon(lease.release()))
            await self.free()

    async def test_a_lease_whose_renewals_are_refused_is_lost_in_time(self):
        async with Client(URL) as client:
            lease = await client.mutex("name", 1).acquire()
            client.redis = Refuses(client.redis, client.scripts["renew"])
            await soon(lease.lost.wait())
            self.assertEqual(lease.reason, "expired")

    async def test_a_renewal_answered_when_the_lease_is_over_does_not_revive_it(self):
        async with Client(URL) as client:
            lease = await client.mutex("name", 1).acquire()
            client.redis = Swallows(client.redis, client.scripts["renew"])
            await soon(lease.lost.wait())
            with self.assertRaises(Lost):
                lease.ensure_held()

    async def test_a_client_that_ends_renews_nothing_and_lets_nobody_wait(self):
        async with Client(URL, waiter_ttl=SELDOM) as client:
            lease = await client.mutex("name", SELDOM).acquire()
            waiting = asyncio.create_task(client.mutex("name", SELDOM).acquire())
            await self.waiting(1)
        self.assertEqual(lease.reason, "closed")
        self.assertTrue(lease.renewing.done() or await soon(asyncio.wait([lease.renewing])))
        self.assertIsInstance(waiting.done() and waiting.exception(), Lost)
        await self.waiting(0)
        self.assertTrue(await self.plain.exists("lockkeeper:name"))

    async def test_a_client_ends_even_if_a_release_in_the_background_fails(self):
        # Otherwise the loop prints the error.
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        held = await self.other.mutex("name", SELDOM).acquire()
        async with Client(URL, waiter_ttl=SELDOM) as client:
            waiting = asyncio.create_task(client.mutex("name", SELDOM).acquire())
            await self.waiting(1)
            client.redis = Refuses(client.redis, client.scripts["release"])
            waiting.cancel()
            await asyncio.wait([waiting])
        self.assertTrue(client.listening.done())
        await held.release()


unittest.main(verbosity=2)
