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
import org.redisson.api.RFencedLock;
import org.redisson.api.RList;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
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
 * <p>Arguments: single:ADDRESS or cluster:ADDRESS of the server, the watchdog's timeout and the
 * fairLockWaitTimeout in ms, and the server of counters and lists in the form of the first argument.
 */
public final class RedissonPeer {
  private final RedissonClient client;
  private final RedissonClient direct; // of counters and lists
  private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();

  private RedissonPeer(RedissonClient client, RedissonClient direct) {
    this.client = client;
    this.direct = direct;
  }

  private static RedissonClient connect(String address, String[] args) {
    Config config = new Config();
    config.setLockWatchdogTimeout(Long.parseLong(args[1]));
    config.setFairLockWaitTimeout(Long.parseLong(args[2]));
    String[] server = address.split(":", 2);
    if (server[0].equals("cluster")) {
      config.useClusterServers().addNodeAddress("redis://" + server[1]).setMasterConnectionMinimumIdleSize(2).setMasterConnectionPoolSize(8);
    } else {
      config.useSingleServer().setAddress("redis://" + server[1]).setConnectionMinimumIdleSize(4).setConnectionPoolSize(16);
    }
    return Redisson.create(config);
  }

  public static void main(String[] args) throws Exception {
    RedissonClient client = connect(args[0], args);
    RedissonPeer peer = new RedissonPeer(client, args[3].equals(args[0]) ? client : connect(args[3], args));
    answer("0", "ok", "ready");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split("\t");
      peer.threads.computeIfAbsent(words[1], name -> Executors.newSingleThreadExecutor(task -> new Thread(task, name))).execute(() -> peer.run(words));
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
      case "multi": // an RLock for each of the names, with commas between them
        return client.getMultiLock(Arrays.stream(name.split(",")).map(client::getLock).toArray(RLock[]::new));
      default:
        throw new IllegalArgumentException(kind);
    }
  }

  private static String micros() {
    Instant now = Instant.now();
    return Long.toString(now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000);
  }

  /** Returns whether a thread waits for the message of an unlock, and not for an answer of a server. */
  private static boolean isParked(String thread) {
    return Thread.getAllStackTraces().entrySet().stream().anyMatch(t -> t.getKey().getName().equals(thread)
        && Arrays.stream(t.getValue()).anyMatch(frame -> frame.getClassName().equals("java.util.concurrent.Semaphore")));
  }

  private String execute(String verb, String[] a) throws Exception {
    switch (verb) {
      case "hello":
        return "Redisson " + Redisson.class.getPackage().getImplementationVersion() + ", Java " + Runtime.version();
      case "lock": // kind, name, lease in ms or -1: the time at which it was acquired
        lock(a[0], a[1]).lock(Long.parseLong(a[2]), TimeUnit.MILLISECONDS);
        return micros();
      case "try": // kind, name
        return Boolean.toString(lock(a[0], a[1]).tryLock());
      case "token": // name
        return client.getFencedLock(a[0]).lockAndGetToken().toString();
      case "parked": // a thread: returns when it waits for a message
        while (!isParked(a[0])) {
          Thread.sleep(1);
        }
        return "";
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
        contend(lock(a[0], a[1]), bucket(a[2]), Integer.parseInt(a[3]));
        return "done";
      case "insist": // kind, name, counter, rounds, lease in ms: the number of calls that failed
        return Integer.toString(insist(lock(a[0], a[1]), bucket(a[2]), Integer.parseInt(a[3]), Long.parseLong(a[4])));
      case "tokens": // name, list, rounds
        tokens(client.getFencedLock(a[0]), direct.getList(a[1], StringCodec.INSTANCE), Integer.parseInt(a[2]));
        return "done";
      case "writes": // name, two counters, rounds
        writes(client.getReadWriteLock(a[0]), bucket(a[1]), bucket(a[2]), Integer.parseInt(a[3]));
        return "done";
      case "reads": // name, two counters, rounds
        reads(client.getReadWriteLock(a[0]), bucket(a[1]), bucket(a[2]), Integer.parseInt(a[3]));
        return "done";
      default:
        throw new IllegalArgumentException(verb);
    }
  }

  private RBucket<String> bucket(String name) {
    return direct.getBucket(name, StringCodec.INSTANCE);
  }

  /** Adds 1 to a counter that is not atomic: two at a time lose an addition. */
  private static void add(RBucket<String> counter) {
    String before = counter.get();
    counter.set(Integer.toString(before == null ? 1 : Integer.parseInt(before) + 1));
  }

  private static void contend(Lock lock, RBucket<String> counter, int rounds) {
    for (int i = 0; i < rounds; i++) {
      lock.lock();
      try {
        add(counter);
      } finally {
        lock.unlock();
      }
    }
  }

  /** Adds within the lock although calls may fail. */
  private static int insist(RLock lock, RBucket<String> counter, int rounds, long lease) {
    int failed = 0;
    for (int added = 0; added < rounds; ) {
      try {
        lock.lock(lease, TimeUnit.MILLISECONDS);
      } catch (RuntimeException e) {
        failed++;
        continue;
      }
      add(counter);
      added++;
      try {
        lock.unlock();
      } catch (RuntimeException e) {
        failed++; // the lease ends
      }
    }
    return failed;
  }

  /** Appends the tokens of grants to a list. */
  private static void tokens(RFencedLock lock, RList<String> list, int rounds) {
    for (int i = 0; i < rounds; i++) {
      Long token = lock.lockAndGetToken();
      try {
        list.add(token.toString());
      } finally {
        lock.unlock();
      }
    }
  }

  /** Adds 1 to two counters, which readers see equal. */
  private static void writes(RReadWriteLock lock, RBucket<String> one, RBucket<String> two, int rounds) {
    for (int i = 0; i < rounds; i++) {
      lock.writeLock().lock();
      try {
        add(one);
        add(two);
      } finally {
        lock.writeLock().unlock();
      }
    }
  }

  private static void reads(RReadWriteLock lock, RBucket<String> one, RBucket<String> two, int rounds) {
    for (int i = 0; i < rounds; i++) {
      lock.readLock().lock();
      try {
        String first = one.get();
        String second = two.get();
        if (!String.valueOf(first).equals(String.valueOf(second))) {
          throw new IllegalStateException("a reader sees half of a write: " + first + ", " + second);
        }
      } finally {
        lock.readLock().unlock();
      }
    }
  }
}
