package quorumstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// A majority has lost a lock and a minority still has it. The holder may take until
// Unlock to stop. Unlock then releases the remaining copies, so that they need not
// expire.
func TestQuorumReleasesRemainingCopiesOfALostLock(t *testing.T) {
	for name, tc := range map[string]struct {
		of   func(c *lock.Client) lock.Locker
		lost int // members that lose it
	}{
		"mutex":  {func(c *lock.Client) lock.Locker { return c.Mutex("k") }, 2},
		"writer": {func(c *lock.Client) lock.Locker { return c.RWMutex("k") }, 2},
		"permit": {func(c *lock.Client) lock.Locker { return c.Semaphore("k", 2) }, 1},
		"batch":  {func(c *lock.Client) lock.Locker { return c.Batch("k", "a", "b") }, 2},
	} {
		for _, hangs := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					all, _ := newServers(t, 3)
					c := all.newQuorumClient(t, nil)
					h, err := tc.of(c).Lock(ctx)
					require.NoError(t, err)
					synctest.Wait()
					all[:tc.lost].delete("k")
					<-h.Done()
					var lost *renewal.LostError
					require.ErrorAs(t, h.Err(), &lost)
					require.Equal(t, renewal.ReasonNotOwned, lost.Reason)
					settle(5 * time.Second)
					assert.Equal(t, 3-tc.lost, all.holding("k"), "the holder has not unlocked yet")
					if hangs {
						all[2].losesRequests(func(ctx context.Context, op locktest.Op) error {
							if op == locktest.Release {
								return mute(ctx, op)
							}
							return nil
						})
					}
					require.ErrorIs(t, h.Unlock(ctx), driver.ErrLost)
					settle(5 * time.Second)
					all[2].losesRequests(nil)
					settle(2 * time.Second)
					assert.Zero(t, all.holding("k"), "Unlock releases the remaining copies")
					assert.Zero(t, c.Stats().Releasing)
				})
			})
		}
	}
}

// The members of a quorum are one server under two or three names.
func TestQuorumDetectsStoresOfOneServer(t *testing.T) {
	for name, at := range map[string][]int{"three are one": {0, 0, 0}, "two of three": {0, 1, 1}, "the outer two": {0, 1, 0}, "two of five": {0, 1, 2, 1, 3}} {
		for mode, of := range map[string]func(c *lock.Client) lock.Locker{
			"mutex":  func(c *lock.Client) lock.Locker { return c.Mutex("k") },
			"reader": func(c *lock.Client) lock.Locker { return c.RWMutex("k").RLocker() },
			"permit": func(c *lock.Client) lock.Locker { return c.Semaphore("k", 3) },
		} {
			t.Run(name+" "+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					behind, _ := newServers(t, 4)
					all := make(servers, len(at))
					for i, server := range at {
						all[i] = behind[server]
					}
					stores := make([]driver.Store, len(at))
					for i, s := range all { // New rejects the same store, but not another name of it
						stores[i] = &named{s.Faulty}
					}
					q, err := quorumstore.New(stores...)
					require.NoError(t, err)
					c, err := lock.New(q, nil)
					require.NoError(t, err)
					l := of(c)
					for range 3 {
						var h *lock.Held
						h, err = l.TryLock(ctx)
						if err == nil { // a majority with two servers answered first
							synctest.Wait() // wait for the other answers
							_ = h.Unlock(ctx)
							settle(time.Second)
						}
					}
					require.ErrorContains(t, err, "must be independent servers")
					require.ErrorContains(t, err, "is the same server as")
					require.NotErrorIs(t, err, driver.ErrNotAcquired)
					settle(5 * time.Second)
					for i, s := range behind {
						assert.Zero(t, s.mem.Len(), "server %d has no keys left", i)
					}
					require.NoError(t, c.Close(ctx))
				})
			})
		}
	}
}

// named is a store under another name.
type named struct{ driver.Store }

// Stores that count tokens from 1 return equal tokens. They are probed once whether they
// are the same server, and never again.
func TestQuorumOfStoresWithEqualTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sameTokens(3)
		asked := make([]int, len(all))
		for i, s := range all {
			s.losesRequests(func(_ context.Context, op locktest.Op) error {
				if op == locktest.Acquire {
					asked[i]++
				}
				return nil
			})
		}
		c := all.newQuorumClient(t, nil)
		const locks = 10
		for range locks {
			h, err := c.Mutex("k").TryLock(ctx)
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, h.Unlock(ctx))
			settle(time.Second)
		}
		for i, n := range asked {
			assert.GreaterOrEqual(t, n, locks)
			assert.LessOrEqual(t, n, locks+2, "store %d received %d probes", i, n-locks)
		}
		for _, s := range all {
			assert.Zero(t, s.mem.Len())
		}
	})
}

// A member that does not answer the probe does not prevent a lock.
func TestQuorumWithMembersThatCannotBeProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sameTokens(3)
		c := all.newQuorumClient(t, nil)
		for name, fault := range map[string]func(ctx context.Context) error{
			"an error":  func(context.Context) error { return errIO },
			"no answer": func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
			"refused":   func(context.Context) error { return errors.New("NOPERM") },
		} {
			var calls atomic.Int64 // the store and the probe call concurrently
			all[0].losesRequests(func(ctx context.Context, op locktest.Op) error {
				if n := calls.Add(1); op == locktest.Acquire && n > 1 {
					return fault(ctx)
				}
				return nil
			})
			h, err := c.Mutex(name).TryLock(ctx)
			require.NoError(t, err, name)
			assert.True(t, h.Valid())
			all[0].losesRequests(nil)
			require.NoError(t, h.Unlock(ctx))
			settle(10 * time.Second)
		}
		for _, s := range all {
			assert.Zero(t, s.mem.Len())
		}
	})
}

// sameTokens returns n servers that return equal tokens at the same instant.
func sameTokens(n int) (all servers) {
	for range n {
		s := newServer()
		s.Over(s.mem)
		all = append(all, s)
	}
	return all
}

// unexplaining is a store that does not tell why a lease is lost.
type unexplaining struct{ driver.Store }

// Renew implements renewal.Renewer.
func (s unexplaining) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	err := s.Store.Renew(ctx, batch, out)
	for i := range out {
		if out[i].IsLost() {
			out[i] = renewal.Lost
		}
	}
	return err
}

// The reason of most members is that of the quorum.
func TestQuorumExplainsALossAsMostMembersDo(t *testing.T) {
	const missing, taken, dead, held = "missing", "taken", "dead", "held"
	for _, c := range []struct {
		members []string
		out     renewal.Outcome
	}{
		{[]string{missing, missing, held}, renewal.LostMissing},
		{[]string{taken, taken, dead}, renewal.LostTaken},
		{[]string{taken, missing, held}, renewal.LostMissing},
		{[]string{taken, taken, missing, held, held}, renewal.LostTaken},
		{[]string{taken, missing, missing, dead, held}, renewal.LostMissing},
		{[]string{missing, held, held}, renewal.Renewed},
		{[]string{missing, dead, held}, renewal.Unknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			all, q := newServers(t, len(c.members))
			l := acquire(t, q, "k", "a")
			for i, state := range c.members {
				switch state {
				case missing:
					all[i].mem.Delete("k")
				case taken:
					all[i].mem.Delete("k")
					acquire(t, all[i].mem, "k", "b")
				case dead:
					all[i].losesRequests(down)
				}
			}
			out := make([]renewal.Outcome, 1)
			_ = q.Renew(t.Context(), []driver.Lease{l}, out) // an error says that the outcome is unknown
			assert.Equal(t, c.out, out[0], c.members)
		})
	}
}

// Members that do not explain do not count, and the client of a quorum has the cause.
func TestTheCauseOfALossOnAQuorum(t *testing.T) {
	for want, members := range map[renewal.Cause]func(s *server) driver.Store{
		renewal.CauseKeyMissing: func(s *server) driver.Store { return s },
		renewal.CauseUnknown:    func(s *server) driver.Store { return unexplaining{s} },
	} {
		synctest.Test(t, func(t *testing.T) {
			all := servers{newServer(), newServer(), newServer()}
			var stores []driver.Store
			for _, s := range all {
				stores = append(stores, members(s))
			}
			q, err := quorumstore.New(stores...)
			require.NoError(t, err)
			client, err := lock.New(q, &lock.Options{Terms: lock.Terms{TTL: ttl}})
			require.NoError(t, err)
			held, err := client.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			all.delete("k")
			<-held.Done()
			var lost *renewal.LostError
			require.ErrorAs(t, held.Err(), &lost)
			assert.Equal(t, want, lost.Cause())
			require.NoError(t, client.Close(t.Context()))
		})
	}
}
