import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryType;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;

/**
 * Takes a sample of Netty's HashedWheelTimer in the same way as the Go program.
 *
 * <p>Arguments: work, pending timers, tick in µs, slots, time to measure in µs, time over which the
 * other timers of a probe come due in µs. Prints the values as one line of JSON.
 */
public final class Timers {
    private static final int BATCH = 256;
    private static final TimerTask NOOP = timeout -> {};

    private final HashedWheelTimer timer;
    private final int pending;
    private final long nanos;
    private final long over;
    private final Map<String, Double> values = new TreeMap<>();
    private final AtomicLong periodicCalls = new AtomicLong();

    private Timers(HashedWheelTimer timer, int pending, long nanos, long over) {
        this.timer = timer;
        this.pending = pending;
        this.nanos = nanos;
        this.over = over;
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("versions")) {
            versions();
            return;
        }
        long tick = Long.parseLong(args[2]);
        int slots = Integer.parseInt(args[3]);
        long nanos = TimeUnit.MICROSECONDS.toNanos(Long.parseLong(args[4]));
        HashedWheelTimer timer =
                new HashedWheelTimer(
                        Executors.defaultThreadFactory(), tick, TimeUnit.MICROSECONDS, slots, false);
        long over = TimeUnit.MICROSECONDS.toNanos(Long.parseLong(args[5]));
        Timers timers = new Timers(timer, Integer.parseInt(args[1]), nanos, over);
        timers.work(args[0]);
        System.out.println(
                timers.values.entrySet().stream()
                        .map(e -> String.format(Locale.ROOT, "\"%s\":%.6f", e.getKey(), e.getValue()))
                        .collect(Collectors.joining(",", "{", "}")));
        System.exit(0); // stopping a wheel with many timers takes long
    }

    private static void versions() {
        String java = System.getProperty("java.vm.name") + " " + System.getProperty("java.version");
        String path = HashedWheelTimer.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        String jar = path.substring(path.lastIndexOf('/') + 1).replace(".jar", "");
        System.out.printf("{\"Java\":\"%s\",\"Netty\":\"%s\"}%n", java, jar);
    }

    private void work(String name) throws Exception {
        switch (name) {
            case "ops" -> ops();
            case "replace", "reset" -> replace();
            case "memory" -> memory();
            case "fire" -> fire();
            case "rearm" -> rearm();
            case "spread" -> spread();
            case "probe" -> probe();
            case "idle" -> idle();
            default -> throw new IllegalArgumentException(name);
        }
    }

    private Timeout noop(long delay) {
        return timer.newTimeout(NOOP, delay, TimeUnit.NANOSECONDS);
    }

    private void fill() {
        Xorshift random = new Xorshift(Xorshift.SEED);
        for (int i = 0; i < pending; i++) {
            noop(random.longDelay());
        }
        settle();
    }

    /** Waits until the worker has filed the queued timers, and collects the garbage. */
    private static void settle() {
        sleep(200_000_000L);
        System.gc();
    }

    private void ops() throws InterruptedException {
        fill();
        Xorshift random = new Xorshift(1);
        Runnable hot =
                () -> {
                    for (int i = 0; i < BATCH; i++) {
                        noop(random.longDelay()).cancel();
                    }
                };
        repeat(hot, 1_000_000_000L); // until it is compiled
        timed(hot, "hot.");
        timed(
                () -> {
                    for (int i = 0; i < BATCH; i++) {
                        random.longDelay();
                        noop(TimeUnit.MINUTES.toNanos(30)).cancel();
                    }
                },
                "near.");
        onAllCores();
    }

    private void onAllCores() throws InterruptedException {
        AtomicLong total = new AtomicLong();
        Thread[] threads = new Thread[Runtime.getRuntime().availableProcessors()];
        Meter meter = new Meter();
        for (int t = 0; t < threads.length; t++) {
            Xorshift random = new Xorshift(t + 1);
            threads[t] =
                    new Thread(
                            () -> {
                                long n = 0;
                                for (long end = System.nanoTime() + nanos; System.nanoTime() < end; n += BATCH) {
                                    for (int i = 0; i < BATCH; i++) {
                                        noop(random.longDelay()).cancel();
                                    }
                                }
                                total.addAndGet(n);
                                meter.addEndingThread();
                            });
            threads[t].start();
        }
        for (Thread t : threads) {
            t.join();
        }
        meter.put(total.get(), values, "par.");
    }

    /** Netty has no reset, so a move is a cancel and a new timer. */
    private void replace() {
        Timeout[] handles = new Timeout[pending];
        Xorshift fillRandom = new Xorshift(Xorshift.SEED);
        for (int i = 0; i < pending; i++) {
            handles[i] = noop(fillRandom.longDelay());
        }
        settle();
        Xorshift random = new Xorshift(1);
        Runnable f =
                () -> {
                    for (int i = 0; i < BATCH; i++) {
                        int h = (int) random.below(handles.length);
                        handles[h].cancel();
                        handles[h] = noop(random.longDelay());
                    }
                };
        repeat(f, 1_000_000_000L);
        timed(f, "");
    }

    private void memory() {
        timer.start();
        noop(TimeUnit.HOURS.toNanos(1));
        settle();
        long before = used();
        fill();
        values.put("bytes", (double) (used() - before) / pending);
    }

    /** The heap in use after the last collection. The current usage would include free room. */
    private static long used() {
        System.gc();
        System.gc();
        return ManagementFactory.getMemoryPoolMXBeans().stream()
                .filter(pool -> pool.getType() == MemoryType.HEAP && pool.getCollectionUsage() != null)
                .mapToLong(pool -> pool.getCollectionUsage().getUsed())
                .sum();
    }

    private void fire() {
        scheduleFires(200_000, 300_000_000L, 400_000_000L); // until it is compiled
        await(200_000);
        Lateness.reset();
        long lead = 500_000_000L + pending * 1500L;
        long start = System.nanoTime();
        Meter meter = scheduleFires(pending, lead, nanos);
        values.put("setup-delay", Math.max(0, (System.nanoTime() - start - lead) / 1e6));
        await(pending);
        values.put("cpu", (double) meter.cpu() / pending);
        Lateness.put(values);
    }

    private Meter scheduleFires(int n, long lead, long over) {
        long start = System.nanoTime();
        Xorshift random = new Xorshift(Xorshift.SEED);
        for (int i = 0; i < n; i++) {
            long due = start + lead + random.within(over);
            timer.newTimeout(new RecordingTask(due), due - System.nanoTime(), TimeUnit.NANOSECONDS);
        }
        System.gc();
        return new Meter();
    }

    private static void await(long n) {
        for (long end = System.nanoTime() + 25_000_000_000L; System.nanoTime() < end && Lateness.fired() < n; ) {
            sleep(20_000_000L);
        }
    }

    private void rearm() {
        final long period = 1_000_000_000L;
        final int steps = 1000;
        TimerTask periodic =
                timeout -> {
                    periodicCalls.incrementAndGet();
                    timer.newTimeout(timeout.task(), period, TimeUnit.NANOSECONDS);
                };
        long start = System.nanoTime();
        for (int i = 0; i < steps; i++) {
            for (int k = 0; k < pending / steps; k++) {
                timer.newTimeout(periodic, period, TimeUnit.NANOSECONDS);
            }
            sleep(start + (i + 1) * (period / steps) - System.nanoTime());
        }
        sleep(period + period / 4); // until it is compiled
        Meter meter = new Meter();
        long before = periodicCalls.get();
        sleep(nanos);
        long n = periodicCalls.get() - before;
        values.put("cpu", (double) meter.cpu() / n);
    }

    private void spread() {
        Meter meter = scheduleFires(pending, 3_000_000_000L, 60_000_000_000L);
        sleep(nanos);
        values.put("core", 100.0 * meter.cpu() / meter.wall());
    }

    /** See probe.go. */
    private void probe() throws InterruptedException {
        final long warmUp = 1_000_000_000L;
        long begin = System.nanoTime();
        long lead = 500_000_000L + pending * 1500L;
        Xorshift random = new Xorshift(Xorshift.SEED);
        for (int i = 0; i < pending; i++) {
            long due = begin + lead + random.within(over);
            noop(due - System.nanoTime());
        }
        settle();
        runProbes(System.nanoTime() + warmUp);
        Lateness.reset();
        runProbes(Math.max(begin + nanos, System.nanoTime() + nanos / 2));
        Lateness.put(values);
        values.put("probes", (double) Lateness.fired());
    }

    private void runProbes(long end) throws InterruptedException {
        final int probes = 4;
        final long delay = 5_000_000L;
        Thread[] threads = new Thread[probes];
        for (int i = 0; i < probes; i++) {
            final long offset = delay * i / probes;
            threads[i] =
                    new Thread(
                            () -> {
                                sleep(offset);
                                Semaphore fired = new Semaphore(0);
                                do {
                                    RecordingTask task = new RecordingTask(System.nanoTime() + delay);
                                    timer.newTimeout(
                                            timeout -> {
                                                task.run(timeout);
                                                fired.release();
                                            },
                                            delay,
                                            TimeUnit.NANOSECONDS);
                                    fired.acquireUninterruptibly();
                                } while (System.nanoTime() < end);
                            });
            threads[i].start();
        }
        for (Thread t : threads) {
            t.join();
        }
    }

    private void idle() {
        timer.start();
        sleep(1_000_000_000L); // until the compiler is idle
        Meter meter = new Meter();
        sleep(nanos);
        values.put("core", 100.0 * meter.cpu() / meter.wall());
    }

    private void timed(Runnable f, String prefix) {
        repeat(f, nanos / 4);
        Meter meter = new Meter();
        long n = repeat(f, nanos);
        meter.put(n, values, prefix);
    }

    private static long repeat(Runnable f, long nanos) {
        long n = 0;
        for (long end = System.nanoTime() + nanos; System.nanoTime() < end; n += BATCH) {
            f.run();
        }
        return n;
    }

    private static void sleep(long nanos) {
        try {
            TimeUnit.NANOSECONDS.sleep(nanos);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
