import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** The process of Redisson or of Curator. README.md describes the protocol. */
public final class Peer {
  private static final int WATCH = 1;
  private static final int ASK = 100;
  private static final int WRITE = 10;
  private static final int WORK = 5;
  private static final int HOLD = 1; // milliseconds

  private static String library;
  private static String address;
  private static int lease;
  private static final Map<String, Session> sessions = new ConcurrentHashMap<>();

  /** A client of a library. All calls but held come from its thread. */
  interface Client {
    void acquire(String key) throws Exception;

    void release() throws Exception;

    /** Returns what the library says; asks is true if that needs IO, and then it may throw. */
    boolean held() throws Exception;

    boolean asks();
  }

  private static final class RedissonLock implements Client {
    private final RedissonClient client;
    private volatile RLock lock;
    private volatile long thread;

    RedissonLock() {
      Config config = new Config();
      config.setLockWatchdogTimeout(lease);
      config.setThreads(2);
      config.setNettyThreads(2);
      config.useSingleServer().setAddress("redis://" + address);
      client = Redisson.create(config);
    }

    @Override
    public void acquire(String key) throws Exception {
      RLock l = client.getLock(key);
      l.lock();
      thread = Thread.currentThread().getId();
      lock = l;
    }

    @Override
    public void release() {
      lock.unlock();
    }

    @Override
    public boolean held() {
      return lock.isHeldByThread(thread);
    }

    @Override
    public boolean asks() {
      return true;
    }
  }

  private static final class CuratorLock implements Client {
    private final CuratorFramework client;
    private InterProcessMutex lock;
    private volatile boolean suspended;

    CuratorLock() {
      client = CuratorFrameworkFactory.newClient(address, lease, lease, new ExponentialBackoffRetry(1000, 3));
      client.getConnectionStateListenable().addListener((of, state) -> {
        if (state == ConnectionState.SUSPENDED || state == ConnectionState.LOST) {
          suspended = true;
        }
      });
      client.start();
    }

    @Override
    public void acquire(String key) throws Exception {
      InterProcessMutex l = new InterProcessMutex(client, "/compare/" + key);
      suspended = false;
      l.acquire();
      lock = l;
    }

    @Override
    public void release() throws Exception {
      lock.release();
    }

    @Override
    public boolean held() {
      return !suspended;
    }

    @Override
    public boolean asks() {
      return false;
    }
  }

  private static final class Session {
    final ExecutorService thread = Executors.newSingleThreadExecutor();
    final String name;
    Client client;
    volatile Turn turn;

    Session(String name) {
      this.name = name;
    }
  }

  /** What is done while a lock is held. */
  private static final class Turn {
    final Session session;
    volatile boolean stop;
    volatile boolean held = true;

    Turn(Session session) {
      this.session = session;
      if (session.client.asks()) {
        start(() -> {
          while (pause(ASK)) {
            try {
              if (!session.client.held()) {
                held = false;
                return;
              }
            } catch (Exception e) {
              // an error is no answer
            }
          }
        });
      }
      start(() -> {
        while (pause(WATCH)) {
          if (!holds()) {
            send("{\"event\":\"told\",\"session\":\"" + session.name + "\",\"at\":" + System.nanoTime() + "}");
            return;
          }
        }
      });
      start(() -> {
        while (pause(WRITE)) {
          if (!holds()) {
            return;
          }
          sleep(WORK);
          send("{\"event\":\"write\",\"session\":\"" + session.name + "\",\"at\":" + System.nanoTime() + "}");
        }
      });
    }

    private boolean holds() {
      try {
        return session.client.asks() ? held : session.client.held();
      } catch (Exception e) {
        return true;
      }
    }

    private boolean pause(int millis) {
      sleep(millis);
      return !stop;
    }

    private static void start(Runnable work) {
      Thread t = new Thread(work);
      t.setDaemon(true);
      t.start();
    }
  }

  private static void sleep(int millis) {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private static synchronized void send(String line) {
    System.out.println(line);
    System.out.flush();
  }

  private static void reply(String id, long at, String rest) {
    send("{\"id\":" + id + ",\"at\":" + at + rest + "}");
  }

  private static String error(Throwable e) {
    String text = e.getClass().getSimpleName() + ": " + e.getMessage();
    return ",\"error\":\"" + text.replaceAll("[^ -~]", " ").replace("\\", "/").replace("\"", "'") + "\"";
  }

  private static String field(String line, String name) {
    Matcher m = Pattern.compile("\"" + name + "\":\"?([^\",}]*)").matcher(line);
    return m.find() ? m.group(1) : "";
  }

  private interface Call {
    String run() throws Exception;
  }

  private static void answer(String id, Call call) {
    try {
      String rest = call.run();
      reply(id, System.nanoTime(), rest);
    } catch (Throwable e) {
      reply(id, System.nanoTime(), error(e));
    }
  }

  public static void main(String[] args) throws Exception {
    library = args[0];
    address = args[1];
    lease = Integer.parseInt(args[2]);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      handle(line);
    }
    System.exit(0);
  }

  private static void handle(String line) {
    String id = field(line, "id");
    String name = field(line, "session");
    String key = field(line, "key");
    switch (field(line, "do")) {
      case "hello":
        Package of = library.equals("redisson") ? Redisson.class.getPackage() : InterProcessMutex.class.getPackage();
        String version = of.getImplementationVersion();
        if (version == null) { // Curator names it in the file only: curator-recipes-5.9.0.jar
          version = InterProcessMutex.class.getProtectionDomain().getCodeSource().getLocation().getPath().replaceAll(".*-([0-9][^/]*)\\.jar", "$1");
        }
        reply(id, System.nanoTime(), ",\"text\":\"" + (library.equals("redisson") ? "Redisson " : "Curator ") + version
            + ", Java " + Runtime.version().feature() + "\"");
        break;
      case "open":
        Session opened = sessions.computeIfAbsent(name, Session::new);
        opened.thread.execute(() -> answer(id, () -> {
          opened.client = library.equals("redisson") ? new RedissonLock() : new CuratorLock();
          opened.client.acquire(key);
          opened.client.release();
          return "";
        }));
        break;
      case "acquire":
        Session s = sessions.get(name);
        s.thread.execute(() -> answer(id, () -> {
          s.client.acquire(key);
          s.turn = new Turn(s);
          return "";
        }));
        break;
      case "release":
        Session r = sessions.get(name);
        r.turn.stop = true;
        r.thread.execute(() -> answer(id, () -> {
          r.client.release();
          return "";
        }));
        break;
      case "contend":
        new Thread(() -> answer(id, () -> contend(name, key, Integer.parseInt(field(line, "n")), Integer.parseInt(field(line, "ms"))))).start();
        break;
      default:
        reply(id, System.nanoTime(), ",\"error\":\"unknown request\"");
    }
  }

  private static String contend(String name, String key, int n, int millis) throws Exception {
    int[] counts = new int[n];
    long end = System.nanoTime() + millis * 1_000_000L;
    Future<?>[] all = new Future<?>[n];
    for (int i = 0; i < n; i++) {
      int number = i;
      Session s = sessions.get(name + i);
      all[i] = s.thread.submit(() -> {
        while (System.nanoTime() < end) {
          s.client.acquire(key);
          if (System.nanoTime() < end) {
            counts[number]++;
          }
          sleep(HOLD);
          s.client.release();
        }
        return null;
      });
    }
    for (Future<?> f : all) {
      f.get();
    }
    StringBuilder text = new StringBuilder(",\"counts\":[");
    for (int i = 0; i < n; i++) {
      text.append(i == 0 ? "" : ",").append(counts[i]);
    }
    return text.append("]").toString();
  }
}
