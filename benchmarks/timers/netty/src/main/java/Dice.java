/** The random numbers of the Go program. */
final class Dice {
    private long x;

    Dice(long seed) {
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

    /** A delay of one to two hours. */
    long far() {
        return 3_600_000_000_000L + below(3_600_000) * 1_000_000 + (next() >>> 44);
    }
}
