"""The process of redis-py. README.md describes the protocol."""

import json
import platform
import sys
import threading
import time

import redis

WATCH, ASK, WRITE, WORK, HOLD = 0.001, 0.1, 0.01, 0.005, 0.001  # seconds

host, port = sys.argv[1].rsplit(":", 1)
lease = int(sys.argv[2]) / 1000
out = threading.Lock()
sessions = {}


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def send(**message):
    with out:
        print(json.dumps(message), flush=True)


class Session:
    def __init__(self):
        self.client = redis.Redis(host=host, port=int(port))
        self.lock = None
        self.stop = None

    def acquire(self, key):
        # The lock is asked about and released by other threads.
        lock = self.client.lock(key, timeout=lease, thread_local=False)
        if not lock.acquire():
            raise RuntimeError("not acquired")
        return lock


def watch(name, lock, stop):
    held = [True]

    def ask():
        while not stop.wait(ASK):
            try:
                if not lock.owned():
                    held[0] = False
                    return
            except Exception:  # an error is no answer
                pass

    def tell():
        while not stop.wait(WATCH):
            if not held[0]:
                send(event="told", session=name, at=now())
                return

    def write():
        while not stop.wait(WRITE):
            if not held[0]:
                return
            time.sleep(WORK)
            send(event="write", session=name, at=now())

    for work in (ask, tell, write):
        threading.Thread(target=work, daemon=True).start()


def hello(_):
    return {"text": f"redis-py {redis.__version__}, Python {platform.python_version()}"}


def open_session(request):
    session = Session()
    session.acquire(request["key"]).release()
    sessions[request["session"]] = session
    return {}


def acquire(request):
    session = sessions[request["session"]]
    lock = session.acquire(request["key"])
    at = now()
    session.lock, session.stop = lock, threading.Event()
    watch(request["session"], lock, session.stop)
    return {"at": at}


def release(request):
    session = sessions[request["session"]]
    session.stop.set()
    session.lock.release()
    return {}


def contend(request):
    counts = [0] * request["n"]
    end = time.monotonic() + request["ms"] / 1000

    def turns(i):
        session = sessions[f"{request['session']}{i}"]
        while time.monotonic() < end:
            lock = session.client.lock(request["key"], timeout=lease, thread_local=False)
            if lock.acquire(blocking_timeout=max(0, end - time.monotonic())):
                counts[i] += 1
                time.sleep(HOLD)
                lock.release()

    threads = [threading.Thread(target=turns, args=[i]) for i in range(request["n"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"counts": counts}


actions = {"hello": hello, "open": open_session, "acquire": acquire, "release": release, "contend": contend}


def answer(request):
    try:
        reply = actions[request["do"]](request)
    except Exception as error:  # the harness counts it
        reply = {"error": repr(error)}
    send(**{"id": request["id"], "at": now(), **reply})


for line in sys.stdin:
    threading.Thread(target=answer, args=[json.loads(line)], daemon=True).start()
