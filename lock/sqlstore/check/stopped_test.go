package check

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// onEach runs a test on each database.
func onEach(t *testing.T, f func(t *testing.T, d *database, dsn string)) {
	onEachServer(t, f)
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		dsn := sqliteDSN(t)
		f(t, newDatabase(t, "sqlite", dsn, sqlstore.SQLite(), ""), dsn)
	})
}

// outlast makes the leases of insertLeases end in an hour, and have a TTL of two.
func outlast(t *testing.T, s *testedStore, batch []driver.Lease) {
	t.Helper()
	s.exec(t, "UPDATE {locks} SET expires = expires + 3600000")
	for i := range batch {
		batch[i].TTL = 2 * time.Hour
	}
}

// TestAProcessThatStopsAtAStatement stops a process before each statement of its transactions on the row of one of
// 300 leases. Another process must go on to renew all others. SQLite has one writer, so the leases
// are not renewed while it stands still, but none is taken for lost.
func TestAProcessThatStopsAtAStatement(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database, dsn string) {
		holder := d.store(t, sqlstore.Options{})
		batch := insertLeases(t, holder, 300)
		outlast(t, holder, batch)
		another := &database{d.db, dialectOf(d.dialect.String()), d.table}
		calls := map[string]func(s *testedStore, r driver.Request) error{
			"Acquire": func(s *testedStore, r driver.Request) error { _, err := s.Acquire(context.Background(), r); return err },
			"Wait": func(s *testedStore, r driver.Request) error {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second) // a dial must fit
				defer cancel()
				_, err := s.Wait(ctx, r, func() { time.AfterFunc(30*time.Millisecond, cancel) }) // after a few polls
				return err
			},
			"Release": func(s *testedStore, r driver.Request) error {
				return s.Release(context.Background(), driver.Lease{Request: r, Unanswered: true})
			},
			"Sweep": func(s *testedStore, _ driver.Request) error { _, err := s.Sweep(context.Background()); return err },
			"SetMetadata": func(s *testedStore, r driver.Request) error {
				return s.SetMetadata(context.Background(), driver.Lease{Request: r, Token: 8}, "m")
			},
			"Save": func(s *testedStore, _ driver.Request) error {
				return s.Save(context.Background(), batch[7], 1, []byte("state"), time.Hour)
			},
			"Renew": func(s *testedStore, r driver.Request) error {
				return s.Renew(context.Background(), []driver.Lease{batch[7]}, make([]renewal.Outcome, 1))
			},
		}
		for name, call := range calls {
			for stopAt := int64(1); ; stopAt++ {
				tapped, tap := newTapped(t, another, dsn)
				stopped := tapped.store(t, sqlstore.Options{Pessimistic: true})
				var n atomic.Int64
				reached, proceed := make(chan struct{}), make(chan struct{})
				tap.onStatement(func(string) {
					if n.Add(1) == stopAt {
						close(reached)
						<-proceed
					}
				})
				done := make(chan error, 1)
				go func() { done <- call(stopped, request(batch[7].Key)) }()
				select {
				case <-reached:
				case <-done:
				}
				if n.Load() < stopAt {
					close(proceed)
					require.Greater(t, stopAt, int64(1))
					break
				}
				patience := 2 * time.Second
				if d.dialect.String() == "SQLite" {
					patience /= 10
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				out := make([]renewal.Outcome, len(batch))
				err := holder.Renew(ctx, batch, out)
				cancel()
				for i, outcome := range out {
					at := fmt.Sprintf("%s, statement %d, lease %d: %v", name, stopAt, i, err)
					if i == 7 || d.dialect.String() == "SQLite" {
						require.False(t, outcome.IsLost(), at)
					} else {
						require.Equal(t, renewal.Renewed, outcome, at)
					}
				}
				close(proceed)
				<-done
			}
		}
		out := make([]renewal.Outcome, len(batch))
		require.NoError(t, holder.Renew(t.Context(), batch, out))
		assert.NotContains(t, out, renewal.Unknown)
		assert.False(t, slices.ContainsFunc(out, renewal.Outcome.IsLost))
	})
}
