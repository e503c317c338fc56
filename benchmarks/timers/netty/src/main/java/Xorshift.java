/** The random number generator of the Go program. */
final class Xorshift {
    /** The state from which all samples draw the delays of pending timers. */
    static final long SEED = 88172645463325252L;

    private long x;

    Xorshift(long seed) {
        x = seed;
    }

    long next() {
        x ^= x << 13;
        x ^= x >>> 7;
        x ^= x << 17;
        return x;
    }

    long below(long n) {
        return (next() >>> 32) * n >>> 32;
    }

    /** A time below the given nanoseconds. */
    long within(long nanos) {
        return below(nanos / 1000) * 1000 + (next() >>> 55);
    }

    /** A delay of one to two hours. */
    long longDelay() {
        return 3_600_000_000_000L + below(3_600_000) * 1_000_000 + (next() >>> 44);
    }
}
