import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Measures Redisson's MultiLock. For each number of members it prints a line with the number, the
 * median time in µs to lock and unlock all members, and the number of measurements.
 */
public final class MultiLock {
    public static void main(String[] args) throws Exception {
        String address = args[0];
        long window = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(args[1]));
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + address);
        RedissonClient client = Redisson.create(config);
        measure(client, 100, window); // warms up
        for (String size : Arrays.asList(args).subList(2, args.length)) {
            int members = Integer.parseInt(size);
            long[] took = measure(client, members, window);
            System.out.println(members + " " + took[took.length / 2] / 1000.0 + " " + took.length);
        }
        client.shutdown();
    }

    private static long[] measure(RedissonClient client, int members, long window) throws Exception {
        RLock[] locks = new RLock[members];
        for (int i = 0; i < members; i++) {
            locks[i] = client.getLock("{bench}:" + i);
        }
        List<Long> took = new ArrayList<>();
        for (long began = System.nanoTime(); took.isEmpty() || System.nanoTime() - began < window;) {
            RLock all = client.getMultiLock(locks);
            long start = System.nanoTime();
            if (!all.tryLock()) {
                throw new IllegalStateException("not locked");
            }
            all.unlock();
            took.add(System.nanoTime() - start);
        }
        return took.stream().mapToLong(Long::longValue).sorted().toArray();
    }
}
