import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Map;

/** Measures wall time and the processor time of all threads. */
final class Meter {
    private static final Path TASKS = Path.of("/proc/self/task");

    private final long cpu;
    private final long wall;
    private long ended; // processor time of threads that have ended

    Meter() {
        cpu = cpuNow();
        wall = System.nanoTime();
    }

    /** A thread that starts and ends while the meter runs calls this last. */
    synchronized void addEndingThread() {
        ended += threadCPU(Path.of("/proc/thread-self"));
    }

    long wall() {
        return System.nanoTime() - wall;
    }

    synchronized long cpu() {
        return cpuNow() - cpu + ended;
    }

    void put(long n, Map<String, Double> values, String prefix) {
        values.put(prefix + "wall", (double) wall() / n);
        values.put(prefix + "cpu", (double) cpu() / n);
    }

    private static long cpuNow() {
        long sum = 0;
        try (DirectoryStream<Path> threads = Files.newDirectoryStream(TASKS)) {
            for (Path thread : threads) {
                sum += threadCPU(thread);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return sum;
    }

    /** The first number of schedstat is the nanoseconds on a processor. */
    private static long threadCPU(Path thread) {
        String line = read(thread.resolve("schedstat"));
        return line.isEmpty() ? 0 : Long.parseLong(line.split(" ")[0]);
    }

    private static String read(Path file) {
        try {
            return Files.readString(file);
        } catch (NoSuchFileException e) {
            return ""; // the thread has ended
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
