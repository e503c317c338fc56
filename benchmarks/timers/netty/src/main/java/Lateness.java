import java.util.Map;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;

/** Counts the timers that fired by their lateness, in the buckets of the Go program. */
final class Lateness {
    private static final int BUCKETS_PER_OCTAVE = 16;
    private static final int BUCKETS = 40 * BUCKETS_PER_OCTAVE;
    private static final AtomicIntegerArray late = new AtomicIntegerArray(BUCKETS);
    private static final AtomicLong early = new AtomicLong();

    private Lateness() {}

    static void count(long nanos) {
        if (nanos < 0) {
            early.incrementAndGet();
            nanos = 0;
        }
        late.getAndIncrement(bucket(nanos));
    }

    private static int bucket(long nanos) {
        long us = nanos / 1000 + BUCKETS_PER_OCTAVE;
        int octave = 64 - Long.numberOfLeadingZeros(us) - 5;
        return Math.min(octave * BUCKETS_PER_OCTAVE + (int) (us >>> octave) - BUCKETS_PER_OCTAVE, BUCKETS - 1);
    }

    private static double bucketEndMillis(int bucket) {
        int octave = bucket / BUCKETS_PER_OCTAVE;
        int rest = bucket % BUCKETS_PER_OCTAVE;
        return (((long) (rest + BUCKETS_PER_OCTAVE + 1) << octave) - BUCKETS_PER_OCTAVE) / 1e3;
    }

    static long fired() {
        long sum = 0;
        for (int i = 0; i < BUCKETS; i++) {
            sum += late.get(i);
        }
        return sum;
    }

    static void reset() {
        for (int i = 0; i < BUCKETS; i++) {
            late.set(i, 0);
        }
        early.set(0);
    }

    static void put(Map<String, Double> values) {
        values.put("early", 100.0 * early.get() / Math.max(1, fired()));
        values.put("p50", quantile(0.50));
        values.put("p99", quantile(0.99));
        values.put("max", quantile(1));
    }

    private static double quantile(double q) {
        long rank = (long) Math.ceil(q * fired());
        long seen = 0;
        for (int i = 0; i < BUCKETS; i++) {
            seen += late.get(i);
            if (seen >= rank && seen > 0) {
                return bucketEndMillis(i);
            }
        }
        return 0;
    }
}
