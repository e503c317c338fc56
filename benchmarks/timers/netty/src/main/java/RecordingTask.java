import io.netty.util.Timeout;
import io.netty.util.TimerTask;

/** A task that records how late it runs. */
final class RecordingTask implements TimerTask {
    private final long due;

    RecordingTask(long due) {
        this.due = due;
    }

    @Override
    public void run(Timeout timeout) {
        Lateness.count(System.nanoTime() - due);
    }
}
