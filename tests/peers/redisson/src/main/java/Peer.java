import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.redisson.Redisson;
import org.redisson.RedissonMultiLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson: see ../README.md. A task is a thread, as its locks belong to threads. */
public class Peer {
    static final Gson JSON = new Gson();

    static RedissonClient connect(String address) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + address);
        return Redisson.create(config);
    }

    static RLock lock(RedissonClient client, String kind, String name) {
        switch (kind) {
            case "fair":
                return client.getFairLock(name);
            case "read":
                return client.getReadWriteLock(name).readLock();
            case "write":
                return client.getReadWriteLock(name).writeLock();
            case "eight":
                RLock[] locks = new RLock[8];
                for (int i = 0; i < 8; i++) {
                    locks[i] = client.getLock(name + ":" + i);
                }
                return new RedissonMultiLock(locks);
            default:
                return client.getLock(name);
        }
    }

    static List<Long> work(RLock lock, boolean pairs, long end) {
        List<Long> waits = new ArrayList<>();
        while (System.nanoTime() < end) {
            long start = System.nanoTime();
            lock.lock();
            long granted = System.nanoTime();
            lock.unlock();
            long done = pairs ? System.nanoTime() : granted;
            waits.add((done - start) / 1000);
        }
        return waits;
    }

    static void say(Object object) {
        System.out.println(JSON.toJson(object));
        System.out.flush();
    }

    public static void main(String[] addresses) throws Exception {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        say(Map.of(
            "name", "Redisson",
            "version", "4.7.0",
            "settings", "its defaults: up to 64 connections, a watchdog, woken by messages",
            "kinds", List.of("mutex", "reentrant", "fair", "read", "write", "eight")));
        List<RedissonClient> clients = new ArrayList<>();
        ExecutorService threads = Executors.newCachedThreadPool();
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonObject order = JSON.fromJson(line, JsonObject.class);
            int count = order.get("clients").getAsInt();
            while (clients.size() < count) {
                clients.add(connect(addresses[0]));
            }
            boolean pairs = order.get("work").getAsString().equals("pairs");
            long began = System.nanoTime();
            long used = system.getProcessCpuTime();
            long end = began + order.get("millis").getAsLong() * 1_000_000;
            List<Future<List<Long>>> working = new ArrayList<>();
            for (int task = 0; task < order.get("tasks").getAsInt(); task++) {
                String name = order.get("name").getAsString() + (pairs ? ":" + task : "");
                RLock lock = lock(clients.get(task % count), order.get("kind").getAsString(), name);
                Callable<List<Long>> work = () -> work(lock, pairs, end);
                working.add(threads.submit(work));
            }
            List<List<Long>> waits = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                waits.add(new ArrayList<>());
            }
            for (int task = 0; task < working.size(); task++) {
                waits.get(task % count).addAll(working.get(task).get());
            }
            say(Map.of(
                "waits", waits,
                "seconds", (System.nanoTime() - began) / 1e9,
                "processor", (system.getProcessCpuTime() - used) / 1e3));
        }
        clients.forEach(RedissonClient::shutdown);
        threads.shutdown();
    }
}
