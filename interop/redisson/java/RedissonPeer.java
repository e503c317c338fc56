import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.redisson.Redisson;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * A process that uses Redisson at the request of a test.
 *
 * <p>Each line of the input is a command: a number, the name of a thread, a verb and its arguments,
 * separated by tabs. Commands of one thread run in their order, those of others at the same time. Each
 * command is answered by one line: its number, "ok" or "error", and a text.
 *
 * <p>Arguments: single:ADDRESS or cluster:ADDRESS of the server, and the watchdog's timeout in ms.
 */
public final class RedissonPeer {
  private final RedissonClient client;
  private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();

  private RedissonPeer(RedissonClient client) {
    this.client = client;
  }

  public static void main(String[] args) throws Exception {
    Config config = new Config();
    config.setLockWatchdogTimeout(Long.parseLong(args[1]));
    String[] server = args[0].split(":", 2);
    if (server[0].equals("cluster")) {
      config.useClusterServers().addNodeAddress("redis://" + server[1]);
    } else {
      config.useSingleServer().setAddress("redis://" + server[1]).setConnectionMinimumIdleSize(4).setConnectionPoolSize(16);
    }
    RedissonPeer peer = new RedissonPeer(Redisson.create(config));
    answer("0", "ok", "ready");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split("\t");
      peer.threads.computeIfAbsent(words[1], name -> Executors.newSingleThreadExecutor()).execute(() -> peer.run(words));
    }
    System.exit(0);
  }

  private void run(String[] words) {
    try {
      String text = execute(words[2], Arrays.copyOfRange(words, 3, words.length));
      answer(words[0], "ok", text);
    } catch (Throwable e) {
      answer(words[0], "error", e.getClass().getSimpleName() + ": " + e.getMessage());
    }
  }

  private static synchronized void answer(String number, String kind, String text) {
    System.out.println(number + "\t" + kind + "\t" + text);
    System.out.flush();
  }

  /** Returns the lock of a kind. */
  private RLock lock(String kind, String name) {
    switch (kind) {
      case "lock":
        return client.getLock(name);
      case "fair":
        return client.getFairLock(name);
      case "fenced":
        return client.getFencedLock(name);
      case "read":
        return client.getReadWriteLock(name).readLock();
      case "write":
        return client.getReadWriteLock(name).writeLock();
      default:
        throw new IllegalArgumentException(kind);
    }
  }

  private static String micros() {
    Instant now = Instant.now();
    return Long.toString(now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000);
  }

  private String execute(String verb, String[] a) throws Exception {
    switch (verb) {
      case "lock": // kind, name, lease in ms or -1: the time at which it was acquired
        lock(a[0], a[1]).lock(Long.parseLong(a[2]), TimeUnit.MILLISECONDS);
        return micros();
      case "try": // kind, name
        return Boolean.toString(lock(a[0], a[1]).tryLock());
      case "token": // name
        return client.getFencedLock(a[0]).lockAndGetToken().toString();
      case "unlock": // kind, name: the time before it was released
        String before = micros();
        lock(a[0], a[1]).unlock();
        return before;
      case "force":
        return Boolean.toString(lock(a[0], a[1]).forceUnlock());
      case "locked":
        return Boolean.toString(lock(a[0], a[1]).isLocked());
      case "ttl":
        return Long.toString(lock(a[0], a[1]).remainTimeToLive());
      case "contend": // kind, name, counter, rounds
        contend(lock(a[0], a[1]), client.getBucket(a[2], StringCodec.INSTANCE), Integer.parseInt(a[3]));
        return "done";
      case "permits": // name, number
        return Boolean.toString(client.getPermitExpirableSemaphore(a[0]).trySetPermits(Integer.parseInt(a[1])));
      case "acquire": // name, lease in ms
        return client.getPermitExpirableSemaphore(a[0]).acquire(Long.parseLong(a[1]), TimeUnit.MILLISECONDS);
      case "tryacquire": // name
        return String.valueOf(client.getPermitExpirableSemaphore(a[0]).tryAcquire());
      case "release": // name, id
        client.getPermitExpirableSemaphore(a[0]).release(a[1]);
        return "released";
      case "available":
        RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(a[0]);
        return Integer.toString(semaphore.availablePermits());
      case "setcount": // name, count
        return Boolean.toString(client.getCountDownLatch(a[0]).trySetCount(Long.parseLong(a[1])));
      case "countdown":
        client.getCountDownLatch(a[0]).countDown();
        return "done";
      case "count":
        return Long.toString(client.getCountDownLatch(a[0]).getCount());
      case "await":
        client.getCountDownLatch(a[0]).await();
        return "open";
      default:
        throw new IllegalArgumentException(verb);
    }
  }

  /** Adds to a counter that is not atomic: an overlap of two holders loses one of their additions. */
  private static void contend(Lock lock, RBucket<String> counter, int rounds) {
    for (int i = 0; i < rounds; i++) {
      lock.lock();
      try {
        String before = counter.get();
        counter.set(Integer.toString(before == null ? 1 : Integer.parseInt(before) + 1));
      } finally {
        lock.unlock();
      }
    }
  }
}
