import io.netty.util.Timeout;
import io.netty.util.TimerTask;

/** A task that tells how late it was run. */
final class Arrival implements TimerTask {
    private final long due;

    Arrival(long due) {
        this.due = due;
    }

    @Override
    public void run(Timeout timeout) {
        Arrivals.count(System.nanoTime() - due);
    }
}
