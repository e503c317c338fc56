package doccheck_test

import (
	"context"
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
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
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
	"copy a handle": copyAHandle,
	"lock a `Mutex` again inside its own `Do`": errorOf(func(ctx context.Context, c *lock.Client) error {
		return lock.Do(ctx, c.Mutex("a"), func(ctx context.Context, _ *lock.Held) error {
			return lock.Do(ctx, c.Mutex("a"), work)
		})
	}),
	"use one key for a `Mutex` and a `Semaphore`": errorOf(func(ctx context.Context, c *lock.Client) error {
		locked(ctx, c)
		return lock.Do(ctx, c.Semaphore("a", 2), work)
	}),
	"write `TTL: 30` instead of `30 * time.Second`": func(t *testing.T) string {
		_, err := lock.New(memstore.New(), &lock.Options{Terms: lock.Terms{TTL: 30}})
		require.Error(t, err)
		return err.Error()
	},
	"forget `Unlock` and drop the handle": dropAHandle,
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
}

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
