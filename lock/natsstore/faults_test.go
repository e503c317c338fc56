package natsstore_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/natsstore"
	"github.com/leasewheel/leasewheel/lock/natsstore/internal/testnats"
)

const (
	faultTTL = 3 * time.Second
	patience = 30 * time.Second // until a state is reached that must come
)

// newClient returns a client with a connection of its own.
func newClient(t *testing.T, p *testnats.Process) *lock.Client {
	t.Helper()
	store, err := natsstore.New(t.Context(), p.Connect(), nil)
	require.NoError(t, err)
	client, err := lock.New(store, &lock.Options{
		Terms: lock.Terms{TTL: faultTTL}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), faultTTL)
		defer cancel()
		_ = client.Close(ctx) // it may not have an answer for each release
	})
	return client
}

// faults are what happens to the server, and what ends it.
var faults = map[string]struct{ begin, end func(p *testnats.Process) }{
	"killed": {
		func(p *testnats.Process) { p.Kill() },
		func(p *testnats.Process) { p.Start() },
	},
	"stopped": {
		func(p *testnats.Process) { p.Signal(syscall.SIGSTOP) },
		func(p *testnats.Process) { p.Signal(syscall.SIGCONT) },
	},
}

func TestHoldersAreToldInTimeIfTheServerIsGone(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := testnats.StartProcess(t)
			require.NoError(t, natsstore.CreateStream(t.Context(), p.Connect(), nil))
			client, rival := newClient(t, p), newClient(t, p)
			var all []*lock.Held
			for i := range 20 {
				held, err := client.Mutex(fmt.Sprint("k", i)).Lock(t.Context())
				require.NoError(t, err)
				all = append(all, held)
			}
			fault.begin(p)
			for _, held := range all {
				<-held.Done()
				assert.False(t, held.Valid())
				require.ErrorIs(t, held.Err(), lock.ErrLost)
			}
			fault.end(p)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for _, held := range all {
				next, err := rival.Mutex(held.Key()).Lock(ctx)
				require.NoError(t, err)
				assert.Greater(t, next.Token(), held.Token(), "a lock that its holder has lost is not revived")
				require.NoError(t, next.Unlock(ctx))
			}
		})
	}
}

func TestLocksExcludeEachOtherOverFaults(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := testnats.StartProcess(t)
			require.NoError(t, natsstore.CreateStream(t.Context(), p.Connect(), nil))
			exclusion := locktest.NewExclusion()
			ctx, cancel := context.WithCancel(t.Context())
			var turns atomic.Int64
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			for i := range 6 {
				client := newClient(t, p)
				key := fmt.Sprint("shared", i%2)
				wg.Go(func() {
					for ctx.Err() == nil {
						held, err := client.Mutex(key).Lock(ctx)
						if err != nil {
							continue // of the fault
						}
						exclusion.Enter(key, held.Token())
						select {
						case <-held.Done():
						case <-time.After(time.Millisecond): // the work
						}
						exclusion.Leave(key, held.Token())
						turns.Add(1)
						_ = held.Unlock(ctx)
					}
				})
			}
			more := func(n int64) {
				before := turns.Load()
				require.Eventually(t, func() bool { return turns.Load() >= before+n }, patience, time.Millisecond)
			}
			for range 3 {
				more(20)
				probe, err := newClient(t, p).Mutex("probe").Lock(t.Context())
				require.NoError(t, err)
				fault.begin(p)
				<-probe.Done() // all leases of before have ended
				fault.end(p)
			}
			more(20)
			cancel()
			wg.Wait()
			assert.Empty(t, exclusion.Violations())
		})
	}
}
