import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** What is counted, and held by nobody or by an id: two semaphores and a latch, by the words of a test. See {@link Locks}. */
class Counts {
    static final Set<String> KINDS = Set.of("semaphore", "permits", "latch");

    static String run(RedissonClient client, String verb, String[] words) throws Exception {
        String name = words[2];
        String word = words.length > 3 ? words[3] : "0";
        switch (words[1]) {
            case "semaphore":
                return semaphore(client.getSemaphore(name), verb, Integer.parseInt(word));
            case "permits":
                return permits(client.getPermitExpirableSemaphore(name), verb, word);
            default:
                return latch(client.getCountDownLatch(name), verb, Integer.parseInt(word));
        }
    }

    static String semaphore(RSemaphore semaphore, String verb, int number) throws Exception {
        switch (verb) {
            case "set":
                return String.valueOf(semaphore.trySetPermits(number));
            case "acquire":
                semaphore.acquire(number);
                return "ok";
            case "try":
                return String.valueOf(semaphore.tryAcquire(number));
            case "release":
                semaphore.release(number);
                return "ok";
            case "available":
                return String.valueOf(semaphore.availablePermits());
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    /** A permit is known by its id; a time is a lease, ms. */
    static String permits(RPermitExpirableSemaphore permits, String verb, String word) throws Exception {
        switch (verb) {
            case "set":
                return String.valueOf(permits.trySetPermits(Integer.parseInt(word)));
            case "acquire":
                return permits.acquire(Long.parseLong(word), TimeUnit.MILLISECONDS);
            case "try":
                return String.valueOf(permits.tryAcquire());
            case "release":
                return String.valueOf(permits.tryRelease(word));
            case "renew":
                return String.valueOf(permits.updateLeaseTime(word, 60, TimeUnit.SECONDS));
            case "available":
                return String.valueOf(permits.availablePermits());
            case "acquired":
                return String.valueOf(permits.acquiredPermits());
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    static String latch(RCountDownLatch latch, String verb, int number) throws Exception {
        switch (verb) {
            case "set":
                return String.valueOf(latch.trySetCount(number));
            case "down":
                latch.countDown();
                return "ok";
            case "count":
                return String.valueOf(latch.getCount());
            case "await":
                latch.await();
                return "ok";
            default:
                throw new IllegalArgumentException(verb);
        }
    }
}
