import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.RedissonBaseLock;
import org.redisson.RedissonLock;
import org.redisson.RedissonLockEntry;
import org.redisson.api.RBucket;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.NameMapper;

/**
 * Locks of Redisson, by the words of a test. Each line is {@code ID VERB WORD…}, done by a thread of its own, and answered by {@code ID WORD…}
 * when it is done. Locks are held by threads, so the test says by which: {@code lock CLIENT KIND NAME THREAD}.
 */
public class Locks {
    static final List<RedissonClient> CLIENTS = new ArrayList<>();

    /** For an answer of the server, on a machine that does much else: two minutes. */
    static final int PATIENCE = 120_000;

    static synchronized String open(String address, long watchdog, long fairWait, String prefix) {
        Config config = new Config();
        if (!prefix.isEmpty()) {
            config.setNameMapper(new Prefix(prefix));
        }
        config.setLockWatchdogTimeout(watchdog);
        config.setFairLockWaitTimeout(fairWait);
        if (address.startsWith("cluster:")) {
            config.useClusterServers()
                .addNodeAddress("redis://" + address.substring("cluster:".length()))
                .setTimeout(PATIENCE)
                .setConnectTimeout(PATIENCE)
                .setSubscriptionTimeout(PATIENCE)
                .setMasterConnectionMinimumIdleSize(1)
                .setMasterConnectionPoolSize(8)
                .setSlaveConnectionMinimumIdleSize(1)
                .setSlaveConnectionPoolSize(8)
                .setSubscriptionConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionPoolSize(2);
        } else {
            config.useSingleServer()
                .setAddress("redis://" + address)
                .setTimeout(PATIENCE)
                .setConnectTimeout(PATIENCE)
                .setSubscriptionTimeout(PATIENCE)
                .setConnectionMinimumIdleSize(1)
                .setConnectionPoolSize(8)
                .setSubscriptionConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionPoolSize(2);
        }
        RedissonClient client = Redisson.create(config);
        CLIENTS.add(client);
        return (CLIENTS.size() - 1) + " " + client.getId();
    }

    /** The keys of a client that shares its server with others. */
    record Prefix(String prefix) implements NameMapper {
        @Override
        public String map(String name) {
            return prefix + name;
        }

        @Override
        public String unmap(String name) {
            return name.substring(prefix.length());
        }
    }

    static RLock lock(RedissonClient client, String kind, String name) {
        switch (kind) {
            case "lock":
                return client.getLock(name);
            case "fenced":
                return client.getFencedLock(name);
            case "fair":
                return client.getFairLock(name);
            case "read":
                return client.getReadWriteLock(name).readLock();
            case "write":
                return client.getReadWriteLock(name).writeLock();
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    /**
     * How many here would hear a message about the lock. Redisson has no word for it, and the number of subscriptions does not tell: a waiter asks
     * once more after it has subscribed, and whatever is published until it is answered wakes nobody, unless it is meant for one waiter.
     */
    static int waiting(RLock lock) throws ReflectiveOperationException {
        Field service = RedissonLock.class.getDeclaredField("pubSub");
        service.setAccessible(true);
        Object pubSub = service.get(lock);
        Field entries = pubSub.getClass().getSuperclass().getDeclaredField("entries");
        entries.setAccessible(true);
        Method name = RedissonBaseLock.class.getDeclaredMethod("getEntryName");
        name.setAccessible(true);
        Object entry = ((Map<?, ?>) entries.get(pubSub)).get(name.invoke(lock));
        if (entry == null) {
            return 0;
        }
        Field listeners = RedissonLockEntry.class.getDeclaredField("listeners");
        listeners.setAccessible(true);
        return ((Queue<?>) listeners.get(entry)).size();
    }

    /** Reads a number, and writes the next one, so many times, under the lock. */
    static void count(RLock lock, RBucket<String> counter, long rounds) {
        for (long round = 0; round < rounds; round++) {
            lock.lock();
            long number = Long.parseLong(counter.get());
            counter.set(String.valueOf(number + 1));
            lock.unlock();
        }
    }

    static String run(String verb, String[] words) throws Exception {
        if (verb.equals("open")) {
            long fairWait = words.length > 2 ? Long.parseLong(words[2]) : 300_000;
            return open(words[0], Long.parseLong(words[1]), fairWait, words.length > 3 ? words[3] : "");
        }
        RedissonClient client = CLIENTS.get(Integer.parseInt(words[0]));
        if (Counts.KINDS.contains(words[1])) {
            return Counts.run(client, verb, words);
        }
        RLock lock = lock(client, words[1], words[2]);
        long number = words.length > 3 ? Long.parseLong(words[3]) : 0;
        switch (verb) {
            case "lock":
                lock.lockAsync(number).toCompletableFuture().get();
                return "ok";
            case "lease":
                lock.lockAsync(Long.parseLong(words[4]), TimeUnit.MILLISECONDS, number).toCompletableFuture().get();
                return "ok";
            case "try":
                return String.valueOf(lock.tryLockAsync(number).toCompletableFuture().get());
            case "wait":
                return String.valueOf(lock.tryLockAsync(Long.parseLong(words[4]), -1, TimeUnit.MILLISECONDS, number).toCompletableFuture().get());
            case "unlock":
                lock.unlockAsync(number).toCompletableFuture().get();
                return "ok";
            case "waiting":
                return String.valueOf(waiting(lock));
            case "force":
                return String.valueOf(lock.forceUnlock());
            case "held":
                return String.valueOf(lock.isHeldByThread(number));
            case "locked":
                return String.valueOf(lock.isLocked());
            case "token":
                return String.valueOf(((RFencedLock) lock).tryLockAndGetToken());
            case "count":
                count(lock, client.getBucket(words[4], StringCodec.INSTANCE), number);
                return "ok";
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    public static void main(String[] none) throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            threads.submit(() -> {
                String answer;
                try {
                    answer = run(words[1], Arrays.copyOfRange(words, 2, words.length));
                } catch (Throwable thrown) {
                    Throwable cause = thrown.getCause() == null ? thrown : thrown.getCause();
                    answer = "error " + cause.getClass().getSimpleName() + " " + String.valueOf(cause.getMessage()).replace('\n', ' ');
                }
                say(words[0] + " " + answer);
            });
        }
        // Whoever started it is gone: what it holds is released by nobody.
        Runtime.getRuntime().halt(0);
    }
}
