package doccheck_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/fence"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// work is a function for lock.Do that does nothing.
func work(context.Context, *lock.Held) error { return nil }

// hourly are the options of a job that runs once an hour.
var hourly = &lock.Options{Terms: lock.Terms{MinHold: 54 * time.Minute}}

// keptOpen is a store that its client does not close.
type keptOpen struct{ driver.Store }

func (keptOpen) Shutdown(context.Context) error { return nil }

// lockMistakes are mistakes with locks and timers in one process.
var lockMistakes = map[string]func(t *testing.T) string{
	"call `Unlock` twice": errorOf(func(ctx context.Context, c *lock.Client) error {
		held := locked(ctx, c)
		_ = held.Unlock(ctx)
		return held.Unlock(ctx)
	}),
	"copy a handle": copyAHandle,
	"pass a context that has ended": errorOf(func(ctx context.Context, c *lock.Client) error {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return lock.Do(ctx, c.Mutex("a"), work)
	}),
	"wait until the deadline": errorOf(func(ctx context.Context, c *lock.Client) error {
		locked(ctx, c)
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return lock.Do(ctx, c.Mutex("a"), work)
	}),
	"call `TryLock` while the lock is taken": errorOf(func(ctx context.Context, c *lock.Client) error {
		locked(ctx, c)
		return second(c.Mutex("a").TryLock(ctx))
	}),
	"lock a `Mutex` again inside its own `Do`": errorOf(func(ctx context.Context, c *lock.Client) error {
		return lock.Do(ctx, c.Mutex("a"), func(ctx context.Context, _ *lock.Held) error {
			return lock.Do(ctx, c.Mutex("a"), work)
		})
	}),
	"lock it there with another context and a deadline": errorOf(func(ctx context.Context, c *lock.Client) error {
		return lock.Do(ctx, c.Mutex("a"), func(context.Context, *lock.Held) error {
			other, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return lock.Do(other, c.Mutex("a"), work)
		})
	}),
	"wait for longer than `WaitAtMost` allows": errorOf(func(ctx context.Context, c *lock.Client) error {
		locked(ctx, c)
		return lock.Do(ctx, lock.WaitAtMost(c.Mutex("a"), 20*time.Millisecond), work)
	}),
	"enter a `Reentrant` with the context of a lock that was unlocked": errorOf(func(ctx context.Context, c *lock.Client) error {
		held, err := c.Reentrant("a").Lock(ctx)
		if err != nil {
			return err
		}
		inner, cancel := held.Context(ctx)
		defer cancel()
		_ = held.Unlock(ctx)
		return lock.Do(context.WithoutCancel(inner), c.Reentrant("a"), work)
	}),
	"use one key for a `Mutex` and a `Semaphore`": errorOf(func(ctx context.Context, c *lock.Client) error {
		locked(ctx, c)
		return lock.Do(ctx, c.Semaphore("a", 2), work)
	}),
	"lock a `Batch` while one of its members is taken": errorOf(func(ctx context.Context, c *lock.Client) error {
		if _, err := c.Batch("orders", "1", "2").Lock(ctx); err != nil {
			return err
		}
		return second(c.Batch("orders", "2", "3").TryLock(ctx))
	}),
	"lock a `Batch` inside another one that has only some of its members": errorOf(func(ctx context.Context, c *lock.Client) error {
		return lock.Do(ctx, c.Batch("orders", "1", "2"), func(ctx context.Context, _ *lock.Held) error {
			return lock.Do(ctx, c.Batch("orders", "2", "3"), work)
		})
	}),
	"write `TTL: 30` instead of `30 * time.Second`": func(t *testing.T) string {
		_, err := lock.New(memstore.New(), &lock.Options{Terms: lock.Terms{TTL: 30}})
		require.Error(t, err)
		return err.Error()
	},
	"ask `With` for a TTL that is far below `Options.TTL`": errorOf(func(ctx context.Context, c *lock.Client) error {
		return lock.Do(ctx, c.With(lock.Terms{TTL: 100 * time.Millisecond}).Mutex("a"), work)
	}),
	"share a coarse wheel with a client of short leases": func(t *testing.T) string {
		w, err := wheel.New(nil)
		require.NoError(t, err)
		defer w.Close()
		_, err = lock.New(memstore.New(), &lock.Options{Terms: lock.Terms{TTL: time.Second}, Scheduler: w})
		require.Error(t, err)
		return err.Error()
	},
	"work for longer than a `Fixed` lease": errorWith(&lock.Options{Terms: lock.Terms{TTL: time.Second, Fixed: true}},
		func(ctx context.Context, c *lock.Client) error {
			return lock.Do(ctx, c.Mutex("a"), func(context.Context, *lock.Held) error {
				time.Sleep(time.Minute)
				return nil
			})
		}),
	"work for longer than `MaxHold`": errorWith(&lock.Options{Terms: lock.Terms{MaxHold: time.Minute}},
		func(ctx context.Context, c *lock.Client) error {
			return lock.Do(ctx, c.Mutex("a"), func(context.Context, *lock.Held) error {
				time.Sleep(time.Hour)
				return nil
			})
		}),
	"forget `Unlock` and drop the handle": dropAHandle,
	"delete the key of a held lock": logOf(func(t *testing.T) {
		store := memstore.New()
		client, err := lock.New(store, nil)
		require.NoError(t, err)
		defer client.Close(context.Background())
		held := locked(t.Context(), client)
		store.Delete("a")
		<-held.Done()
		synctest.Wait()
	}),
	"block a wheel with a task": logOf(func(t *testing.T) {
		w, err := wheel.New(nil)
		require.NoError(t, err)
		defer w.Close()
		_, err = w.Schedule(time.Second, task(func(schedule.Timer) { time.Sleep(time.Minute) }))
		require.NoError(t, err)
		time.Sleep(time.Minute)
	}),
	"wait for a lock without a deadline": logOf(func(t *testing.T) {
		client, err := lock.New(memstore.New(), &lock.Options{Terms: lock.Terms{Metadata: "host-1"}})
		require.NoError(t, err)
		defer client.Close(context.Background())
		held := locked(t.Context(), client)
		waiting := make(chan error)
		go func() { waiting <- lock.Do(t.Context(), client.Mutex("a"), work) }()
		time.Sleep(10 * time.Minute)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, <-waiting)
	}),
	"pass a nil store": func(t *testing.T) string {
		_, err := lock.New(nil, nil)
		require.Error(t, err)
		return err.Error()
	},
	"use a client whose `New` has failed": func(t *testing.T) string {
		var client *lock.Client
		err := lock.Do(t.Context(), client.Mutex("a"), work)
		require.Error(t, err)
		return err.Error()
	},
	"use the zero value of a lock": func(t *testing.T) string {
		err := lock.Do(t.Context(), new(lock.Mutex), work)
		require.Error(t, err)
		return err.Error()
	},
	"pass a nil context": errorOf(func(_ context.Context, c *lock.Client) error {
		var none context.Context
		return lock.Do(none, c.Mutex("a"), work)
	}),
	"pass a nil function to `Do`": errorOf(func(ctx context.Context, c *lock.Client) error {
		return lock.Do(ctx, c.Mutex("a"), nil)
	}),
	"lock an empty key": errorOf(func(ctx context.Context, c *lock.Client) error {
		return lock.Do(ctx, c.Mutex(""), work)
	}),
	"lock a `Batch` without members": errorOf(func(ctx context.Context, c *lock.Client) error {
		return lock.Do(ctx, c.Batch("orders"), work)
	}),
	"make a `Semaphore` for nobody": errorOf(func(ctx context.Context, c *lock.Client) error {
		return lock.Do(ctx, c.Semaphore("a", 0), work)
	}),
	"let too many calls wait": errorWith(&lock.Options{MaxWaiters: 1}, func(ctx context.Context, c *lock.Client) error {
		held := locked(ctx, c)
		waiting := make(chan error)
		go func() { waiting <- lock.Do(ctx, c.Mutex("a"), work) }()
		synctest.Wait()
		err := lock.Do(ctx, c.Mutex("b"), work)
		_ = held.Unlock(ctx)
		return errors.Join(err, <-waiting)
	}),
	"lock after `Close`": errorOf(func(ctx context.Context, c *lock.Client) error {
		if err := c.Close(ctx); err != nil {
			return err
		}
		return lock.Do(ctx, c.Mutex("a"), work)
	}),
	"give one store to two clients": func(t *testing.T) string {
		store := memstore.New()
		first, err := lock.New(store, nil)
		require.NoError(t, err)
		other, err := lock.New(store, nil)
		require.NoError(t, err)
		require.NoError(t, first.Close(t.Context()))
		err = lock.Do(t.Context(), other.Mutex("a"), work)
		require.Error(t, err)
		_ = other.Close(t.Context())
		return err.Error()
	},
	"close the engine before the client": func(t *testing.T) (said string) {
		synctest.Test(t, func(t *testing.T) {
			w, err := wheel.New(&wheel.Options{Tick: 10 * time.Millisecond})
			require.NoError(t, err)
			client, err := lock.New(memstore.New(), &lock.Options{Scheduler: w})
			require.NoError(t, err)
			defer client.Close(context.Background())
			held := locked(t.Context(), client)
			w.Close()
			<-held.Done()
			said = held.Err().Error()
		})
		return said
	},
	"give an `RWMutex` a `MinHold`": errorWith(hourly, func(ctx context.Context, c *lock.Client) error {
		return lock.Do(ctx, c.RWMutex("a"), work)
	}),
	"give a reader of it a `MinHold`": errorWith(hourly, func(ctx context.Context, c *lock.Client) error {
		return lock.Do(ctx, c.RWMutex("a").RLocker(), work)
	}),
	"give a `Semaphore` a `MinHold`": errorWith(hourly, func(ctx context.Context, c *lock.Client) error {
		return lock.Do(ctx, c.Semaphore("a", 2), work)
	}),
	"give an `Election` a `MinHold`": errorWith(hourly, func(ctx context.Context, c *lock.Client) error {
		return c.Election("a", "me").Run(ctx, work)
	}),
	"use `MinHold` with a store that cannot keep a lock": func(t *testing.T) string {
		_, err := lock.New(locktest.Plain(memstore.New()), hourly)
		require.Error(t, err)
		return err.Error()
	},
	"do the job again within its `MinHold`": errorWith(hourly, func(ctx context.Context, c *lock.Client) error {
		if err := lock.Do(ctx, c.Mutex("a"), work); err != nil {
			return err
		}
		return second(c.Mutex("a").TryLock(ctx))
	}),
	"expect `MinHold` to count after a crash": func(t *testing.T) (said string) {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New()
			crashed, err := lock.New(keptOpen{mem}, hourly)
			require.NoError(t, err)
			defer crashed.Close(context.Background())
			locked(t.Context(), crashed.With(lock.Terms{Fixed: true})) // is neither renewed nor unlocked
			client, err := lock.New(mem, hourly)
			require.NoError(t, err)
			defer client.Close(context.Background())
			err = second(client.Mutex("a").TryLock(t.Context()))
			require.Error(t, err)
			said = err.Error()
			time.Sleep(30 * time.Second)
			require.NoError(t, second(client.Mutex("a").TryLock(t.Context())), "it is free after the TTL")
		})
		return said
	},
	"send the token of a quorum": func(t *testing.T) (said string) {
		synctest.Test(t, func(t *testing.T) {
			quorum, err := quorumstore.New(memstore.New(), memstore.New(), memstore.New())
			require.NoError(t, err)
			client, err := lock.New(quorum, nil)
			require.NoError(t, err)
			defer client.Close(context.Background())
			held := locked(t.Context(), client)
			_, err = fence.NewMemory(0).Enter(t.Context(), "stock", held.Token())
			require.Error(t, err)
			said = err.Error()
		})
		return said
	},
	"write with the token of a lock that was lost": errorOf(func(ctx context.Context, c *lock.Client) error {
		guard := fence.NewMemory(0)
		stale := locked(ctx, c)
		if err := c.ForceRelease(ctx, "a"); err != nil {
			return err
		}
		leave, err := guard.Enter(ctx, "stock", locked(ctx, c).Token())
		if err != nil {
			return err
		}
		leave()
		return second(guard.Enter(ctx, "stock", stale.Token()))
	}),
	"schedule on a closed engine": func(t *testing.T) string {
		w, err := wheel.New(nil)
		require.NoError(t, err)
		w.Close()
		_, err = schedule.AfterFunc(w, time.Second, func() {})
		require.Error(t, err)
		return err.Error()
	},
	"repeat a call with a period of 0": func(t *testing.T) string {
		w, err := wheel.New(nil)
		require.NoError(t, err)
		defer w.Close()
		_, err = schedule.Every(w, 0, func() {})
		require.Error(t, err)
		return err.Error()
	},
	"let a task panic": logOf(func(t *testing.T) {
		w, err := wheel.New(nil)
		require.NoError(t, err)
		defer w.Close()
		_, err = w.Schedule(time.Second, task(func(schedule.Timer) { panic("oops") }))
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
	}),
}

// task is a schedule.Task.
type task func(schedule.Timer)

func (f task) Run(t schedule.Timer) { f(t) }

// dropAHandle returns what is logged about a handle that has become garbage.
func dropAHandle(t *testing.T) string {
	logged := captureLog(t)
	client, err := lock.New(memstore.New(), nil)
	require.NoError(t, err)
	defer client.Close(context.Background())
	func() { locked(t.Context(), client) }()
	require.Eventually(t, func() bool {
		runtime.GC()
		return logged.String() != ""
	}, time.Minute, time.Millisecond)
	return logged.String()
}

// copyAHandle returns what go vet says.
func copyAHandle(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "main.go")
	text := `package main

import "github.com/leasewheel/leasewheel/lock"

func main() {
	first := new(lock.Held)
	second := *first
	_ = second.Valid()
}
`
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	out, err := goTool(t, "vet", file)
	require.Error(t, err)
	return out
}
