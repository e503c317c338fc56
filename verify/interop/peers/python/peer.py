"""The peer that uses redis-py. The package documentation of interop describes the protocol."""

import json
import platform
import sys
import time

import redis
from redis.exceptions import LockNotOwnedError

RETRY = 0.001  # seconds between two attempts

host, port = sys.argv[1].rsplit(":", 1)
client = redis.Redis(host=host, port=int(port))
locks = {}


def new_lock(request):
    return client.lock(request["key"], timeout=request["ttl"] / 1000, sleep=RETRY)


def acquire(request):
    lock = new_lock(request)
    wait = request.get("wait", 0) / 1000
    held = lock.acquire(blocking=wait > 0, blocking_timeout=wait if wait > 0 else None)
    if held:
        locks[request["key"]] = lock
    return {"held": bool(held)}


def extend(request):
    try:
        locks[request["key"]].extend(request["ttl"] / 1000, replace_ttl=True)
        return {"held": True}
    except LockNotOwnedError:
        return {"held": False}


def release(request):
    try:
        locks.pop(request["key"]).release()
        return {"held": True}
    except LockNotOwnedError:
        return {"held": False}


def rounds(request):
    turns = []
    for _ in range(request["n"]):
        lock = new_lock(request)
        lock.acquire()
        begin = time.time_ns()
        value = int(client.get(request["counter"]) or 0)
        client.set(request["counter"], value + 1)
        turns.append([begin, time.time_ns()])
        lock.release()
    return {"turns": turns}


def hello(_):
    return {"version": f"redis-py {redis.__version__}, Python {platform.python_version()}"}


actions = {"hello": hello, "acquire": acquire, "extend": extend, "release": release, "rounds": rounds}

for line in sys.stdin:
    asked = json.loads(line)
    try:
        answer = actions[asked["do"]](asked)
    except Exception as error:  # the test reports it
        answer = {"error": repr(error)}
    print(json.dumps(answer), flush=True)
