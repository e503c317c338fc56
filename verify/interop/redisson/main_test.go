package redisson

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisson"
	"github.com/leasewheel/leasewheel/verify/interop/internal/report"
)

const (
	watchdog = 3 * time.Second  // the TTL of locks without a lease time, in both languages
	lease    = time.Minute      // of a holder that no waiter outlasts
	woken    = 20 * time.Second // a message has woken a waiter by then; without one it would sleep for 30 s, or for the lease
	limit    = 2 * time.Minute  // of everything else that must happen

	fairWait  = 5 * time.Minute // the default of Redisson
	shortWait = 2 * time.Second
)

// holdEnv makes this process hold locks, given as "address prefix", until it is killed.
const holdEnv = "INTEROP_HOLD"

func TestMain(m *testing.M) {
	logging.Disable() // go-redis prints each failed dial
	if hold := os.Getenv(holdEnv); hold != "" {
		holdForever(hold)
	}
	goleak.VerifyTestMain(report.Around(cleaning{m}, "lock/redisson"))
}

// cleaning removes what the tests have built.
type cleaning struct{ report.Runner }

// Run implements report.Runner.
func (c cleaning) Run() int {
	report.Note("%s", runtime.Version())
	code := c.Runner.Run()
	if java.folder != "" {
		_ = os.RemoveAll(java.folder)
	}
	return code
}

// exclusive are the kinds of locks that have one holder. Those of the peer have the same names.
var exclusive = []string{"lock", "fair", "fenced", "write"}

// all are the kinds of locks with one key.
var all = append([]string{"read"}, exclusive...)

// rival returns a kind that excludes the given one.
func rival(kind string) string {
	if kind == "read" {
		return "write"
	}
	return kind
}

// newClients returns a store and a client of each kind. The caller must close the clients.
func newClients(rdb redis.UniversalClient, fairWait time.Duration) (map[string]*redisson.Store, map[string]*lock.Client, error) {
	stores, clients := make(map[string]*redisson.Store), make(map[string]*lock.Client)
	for name, kind := range map[string]redisson.Kind{"lock": redisson.KindLock, "fair": redisson.KindFairLock, "fenced": redisson.KindFencedLock} {
		store, err := redisson.New(rdb, &redisson.Options{Kind: kind, FairWait: fairWait, WatchdogTTL: lease})
		if err != nil {
			return nil, nil, err
		}
		client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: watchdog}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, nil, err
		}
		stores[name], clients[name] = store, client
	}
	return stores, clients, nil
}

// locker returns a lock of any kind, "multi" with commas between the names of its members.
func locker(clients map[string]*lock.Client, kind, key string) lock.Locker {
	switch kind {
	case "read":
		return clients["lock"].RWMutex(key).RLocker()
	case "write":
		return clients["lock"].RWMutex(key)
	case "multi":
		var members []lock.Locker
		for name := range strings.SplitSeq(key, ",") {
			members = append(members, clients["lock"].Mutex(name))
		}
		return lock.Multi(members...)
	}
	return clients[kind].Mutex(key)
}

// holdForever holds a lock of each kind, waits for a fair one, and prints a line once it has them.
func holdForever(what string) {
	addr, prefix, _ := strings.Cut(what, " ")
	_, clients, err := newClients(redis.NewClient(&redis.Options{Addr: addr}), shortWait)
	if err != nil {
		panic(err)
	}
	for _, kind := range all {
		if _, err := locker(clients, kind, prefix+kind).Lock(context.Background()); err != nil {
			panic(err)
		}
	}
	_, _ = os.Stdout.WriteString("locked\n")
	_, err = locker(clients, "fair", prefix+"queue").Lock(context.Background())
	panic(err) // it is killed before
}
