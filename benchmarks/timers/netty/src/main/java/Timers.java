import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryType;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;

/**
 * The samples of Netty's HashedWheelTimer, work by work as the Go program beside it does them.
 *
 * <p>Arguments: work, timers pending, tick in µs, slots, time to measure in µs. Prints one line of
 * JSON with the values.
 */
public final class Timers {
    private static final int STRETCH = 256;
    private static final TimerTask NOTHING = timeout -> {};

    private final HashedWheelTimer timer;
    private final int pending;
    private final long nanos;
    private final Map<String, Double> values = new TreeMap<>();
    private final AtomicLong beats = new AtomicLong();

    private Timers(HashedWheelTimer timer, int pending, long nanos) {
        this.timer = timer;
        this.pending = pending;
        this.nanos = nanos;
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
        Timers timers = new Timers(timer, Integer.parseInt(args[1]), nanos);
        timers.work(args[0]);
        System.out.println(
                timers.values.entrySet().stream()
                        .map(e -> String.format(Locale.ROOT, "\"%s\":%.6f", e.getKey(), e.getValue()))
                        .collect(Collectors.joining(",", "{", "}")));
        System.exit(0); // a wheel with a million timers takes its time to stop
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
            case "idle" -> idle();
            default -> throw new IllegalArgumentException(name);
        }
    }

    private Timeout nop(long delay) {
        return timer.newTimeout(NOTHING, delay, TimeUnit.NANOSECONDS);
    }

    private void fill() {
        Dice dice = new Dice(88172645463325252L);
        for (int i = 0; i < pending; i++) {
            nop(dice.far());
        }
        settle();
    }

    /** Lets the worker file what is queued for it, and collects the garbage. */
    private static void settle() {
        sleep(200_000_000L);
        System.gc();
    }

    private void ops() throws InterruptedException {
        fill();
        Dice dice = new Dice(1);
        Runnable hot =
                () -> {
                    for (int i = 0; i < STRETCH; i++) {
                        nop(dice.far()).cancel();
                    }
                };
        repeat(hot, 1_000_000_000L); // compiles
        timed(hot, "hot.");
        timed(
                () -> {
                    for (int i = 0; i < STRETCH; i++) {
                        dice.far();
                        nop(TimeUnit.MINUTES.toNanos(30)).cancel();
                    }
                },
                "near.");
        parallel();
        values.put("par.added", values.get("par.cpu") / values.get("hot.cpu"));
    }

    private void parallel() throws InterruptedException {
        AtomicLong total = new AtomicLong();
        Thread[] threads = new Thread[Runtime.getRuntime().availableProcessors()];
        Meter meter = new Meter();
        for (int t = 0; t < threads.length; t++) {
            Dice dice = new Dice(t + 1);
            threads[t] =
                    new Thread(
                            () -> {
                                long n = 0;
                                for (long end = System.nanoTime() + nanos; System.nanoTime() < end; n += STRETCH) {
                                    for (int i = 0; i < STRETCH; i++) {
                                        nop(dice.far()).cancel();
                                    }
                                }
                                total.addAndGet(n);
                                meter.ends();
                            });
            threads[t].start();
        }
        for (Thread t : threads) {
            t.join();
        }
        meter.per(total.get(), values, "par.");
    }

    /** There is no reset: a timer is moved by cancelling it and arming another. */
    private void replace() {
        Timeout[] handles = new Timeout[pending];
        Dice filling = new Dice(88172645463325252L);
        for (int i = 0; i < pending; i++) {
            handles[i] = nop(filling.far());
        }
        settle();
        Dice dice = new Dice(1);
        Runnable f =
                () -> {
                    for (int i = 0; i < STRETCH; i++) {
                        int h = (int) dice.below(handles.length);
                        handles[h].cancel();
                        handles[h] = nop(dice.far());
                    }
                };
        repeat(f, 1_000_000_000L);
        timed(f, "");
    }

    private void memory() {
        timer.start();
        nop(TimeUnit.HOURS.toNanos(1));
        settle();
        long before = used();
        fill();
        values.put("bytes", (double) (used() - before) / pending);
    }

    /** What the last collection left; usage at this moment would count room that is only reserved. */
    private static long used() {
        System.gc();
        System.gc();
        return ManagementFactory.getMemoryPoolMXBeans().stream()
                .filter(pool -> pool.getType() == MemoryType.HEAP && pool.getCollectionUsage() != null)
                .mapToLong(pool -> pool.getCollectionUsage().getUsed())
                .sum();
    }

    private void fire() {
        volley(200_000, 300_000_000L, 400_000_000L); // compiles
        await(200_000);
        Arrivals.forget();
        long lead = 500_000_000L + pending * 1500L;
        long start = System.nanoTime();
        Meter meter = volley(pending, lead, nanos);
        values.put("spoilt", Math.max(0, (System.nanoTime() - start - lead) / 1e6));
        await(pending);
        values.put("cpu", (double) meter.cpu() / pending);
        Arrivals.put(values);
    }

    private Meter volley(int n, long lead, long over) {
        long start = System.nanoTime();
        Dice dice = new Dice(88172645463325252L);
        for (int i = 0; i < n; i++) {
            long due = start + lead + dice.below(over / 1000) * 1000 + (dice.next() >>> 55);
            timer.newTimeout(new Arrival(due), due - System.nanoTime(), TimeUnit.NANOSECONDS);
        }
        System.gc();
        return new Meter();
    }

    private static void await(long n) {
        for (long end = System.nanoTime() + 25_000_000_000L; System.nanoTime() < end && Arrivals.fired() < n; ) {
            sleep(20_000_000L);
        }
    }

    private void rearm() {
        final long period = 1_000_000_000L;
        final int steps = 1000;
        TimerTask beat =
                timeout -> {
                    beats.incrementAndGet();
                    timer.newTimeout(timeout.task(), period, TimeUnit.NANOSECONDS);
                };
        long start = System.nanoTime();
        for (int i = 0; i < steps; i++) {
            for (int k = 0; k < pending / steps; k++) {
                timer.newTimeout(beat, period, TimeUnit.NANOSECONDS);
            }
            sleep(start + (i + 1) * (period / steps) - System.nanoTime());
        }
        sleep(period + period / 4); // one turn compiles
        Meter meter = new Meter();
        long before = beats.get();
        sleep(nanos);
        long n = beats.get() - before;
        values.put("cpu", (double) meter.cpu() / n);
        values.put("rate", 100.0 * n / pending / (meter.wall() / 1e9));
    }

    private void spread() {
        Meter meter = volley(pending, 3_000_000_000L, 60_000_000_000L);
        sleep(nanos);
        values.put("core", 100.0 * meter.cpu() / meter.wall());
        values.put("fired", (double) Arrivals.fired());
        Arrivals.put(values);
    }

    private void idle() {
        timer.start();
        fill();
        sleep(1_000_000_000L); // the compiler comes to rest
        Meter meter = new Meter();
        sleep(nanos);
        values.put("core", 100.0 * meter.cpu() / meter.wall());
        values.put("wakes", meter.sleeps() / (meter.wall() / 1e9));
    }

    private void timed(Runnable f, String prefix) {
        repeat(f, nanos / 4);
        Meter meter = new Meter();
        long n = repeat(f, nanos);
        meter.per(n, values, prefix);
    }

    private static long repeat(Runnable f, long nanos) {
        long n = 0;
        for (long end = System.nanoTime() + nanos; System.nanoTime() < end; n += STRETCH) {
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
