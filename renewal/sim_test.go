package renewal_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

// A lease of these tests is a text with its TTL, such as "7 30s".
func leaseOf(name string, ttl time.Duration) string { return name + " " + ttl.String() }

func nameOf(lease string) string {
	name, _, _ := strings.Cut(lease, " ")
	return name
}

func ttlOf(lease string) time.Duration {
	_, text, _ := strings.Cut(lease, " ")
	ttl, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return ttl
}

// server is a model of a server. It records until when it would keep each lease, and executes
// renewals late, never, or without an answer.
type server struct {
	mu    sync.Mutex // guards rng and until
	rng   *rand.Rand
	until map[string]time.Time // by the name of the lease; no entry: the server does not have it
	calm  bool                 // answers everything soon
	late  sync.WaitGroup       // requests that arrive after their callers have gone
}

func (s *server) Renew(ctx context.Context, batch []string, out []renewal.Outcome) error {
	s.mu.Lock()
	fate, delay := s.rng.IntN(10), time.Duration(s.rng.Int64N(int64(2*ttl)))
	if s.calm || fate < 5 {
		fate, delay = 0, time.Duration(s.rng.Int64N(int64(100*time.Millisecond)))
	}
	s.mu.Unlock()
	if fate == 9 { // lost on the way there
		<-ctx.Done()
		return ctx.Err()
	}
	select { // on the way there
	case <-time.After(delay / 2):
	case <-ctx.Done():
		leases := append([]string(nil), batch...)
		s.late.Go(func() { // it arrives all the same
			time.Sleep(delay)
			s.execute(leases, make([]renewal.Outcome, len(leases)))
		})
		return ctx.Err()
	}
	s.execute(batch, out)
	select { // on the way back
	case <-time.After(delay / 2):
		if fate == 8 { // the answer is lost
			clear(out)
			return errIO
		}
		return nil
	case <-ctx.Done():
		clear(out)
		return ctx.Err()
	}
}

func (s *server) execute(batch []string, out []renewal.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i, lease := range batch {
		name := nameOf(lease)
		if until, ok := s.until[name]; ok && now.Before(until) {
			if end := now.Add(ttlOf(lease)); end.After(until) { // a renewal never shortens a lease
				s.until[name] = end
			}
			out[i] = renewal.Renewed
			continue
		}
		delete(s.until, name)
		out[i] = renewal.Lost
	}
}

// renewBeside renews a lease by a request of its own, not by the watchdog, and gives it
// another TTL.
func (s *server) renewBeside(entry *renewal.Entry[string], ttl, there, back time.Duration) {
	sent, out := time.Now(), make([]renewal.Outcome, 1)
	lease := leaseOf(nameOf(entry.Lease()), ttl)
	time.Sleep(there)
	s.execute([]string{lease}, out)
	time.Sleep(back)
	switch out[0] {
	case renewal.Renewed:
		_ = entry.Update(renewal.Grant{TTL: ttl, Sent: sent}, func(string) string { return lease })
	case renewal.Lost:
		entry.ReportLost(errIO)
	}
}

func (s *server) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.until[name]
	return ok && time.Now().Before(until)
}

// Under random faults of the server, other renewals, changed TTLs and replacements, four invariants hold. The
// server keeps every lease that is Valid. A deadline never moves back. Done is closed when a
// lease is no longer valid. A lost or stopped lease is never valid again. Without faults,
// no lease is lost.
func TestRandomFaultsNeverLeaveAStaleHolder(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
				rng := rand.New(rand.NewPCG(seed, 1))
				s := &server{rng: rand.New(rand.NewPCG(seed, 2)), until: map[string]time.Time{}, calm: seed%5 == 0}
				t.Cleanup(s.late.Wait)
				watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{Failures: []int{1, 2, -1}[rng.IntN(3)]}, seam.Tuning{MaxBatch: 1 + rng.IntN(8), InFlight: 1 + rng.IntN(3)})})
				entries := map[string]*renewal.Entry[string]{}
				dead := map[string]bool{}
				deadlines := map[string]time.Time{}
				for i := range 40 {
					lease := fmt.Sprint(i)
					sent := time.Now()
					s.mu.Lock()
					s.until[lease] = sent.Add(ttl)
					s.mu.Unlock()
					time.Sleep(time.Duration(rng.Int64N(int64(time.Second))))
					entry, err := watchdog.Register(leaseOf(lease, ttl), renewal.Grant{TTL: ttl, Sent: sent})
					require.NoError(t, err)
					entries[lease] = entry
				}
				stopped := 0
				for range 600 {
					advance(time.Duration(rng.Int64N(int64(time.Second))))
					for lease, entry := range entries {
						valid := entry.Valid()
						if valid {
							require.True(t, s.has(lease), "lease %s is valid, but the server does not hold it", lease)
							require.False(t, dead[lease], "lease %s came back", lease)
							require.False(t, entry.Deadline().Before(deadlines[lease]), "the deadline of lease %s moved back", lease)
							deadlines[lease] = entry.Deadline()
						} else {
							dead[lease] = true
						}
						require.Equal(t, valid, entry.Err() == nil)
						require.Equal(t, !valid, closed(entry.Done()))
					}
					lease := fmt.Sprint(rng.IntN(40))
					switch n := rng.IntN(40); {
					case n == 0 && renewal.StopEntry(entries[lease], nil):
						stopped++
					case n < 4:
						current := entries[lease].Lease()
						if next, err := entries[lease].Replace(current, ttlOf(current)); err == nil {
							entries[lease] = next
						}
					case n < 16:
						entry := entries[lease]
						there, back := time.Duration(rng.Int64N(int64(period))), time.Duration(rng.Int64N(int64(period)))
						other := []time.Duration{ttl, ttl / 3, 3 * ttl}[rng.IntN(3)]
						s.late.Go(func() { s.renewBeside(entry, other, there, back) })
					}
				}
				stats := watchdog.Stats()
				assert.Equal(t, 40, stats.Held+int(stats.Lost())+stopped, "every lease is held or has ended once")
				if s.calm {
					assert.Zero(t, stats.Lost(), "a loss without a fault")
				}
			})
		})
	}
}
