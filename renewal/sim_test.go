package renewal_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
)

// server is a store as the outside world sees it: it knows for each lease until
// when it would be kept, and executes renewals late, never, or without an answer.
type server struct {
	mu    sync.Mutex // guards rng and until
	rng   *rand.Rand
	until map[string]time.Time // no entry: the server does not have the lease
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
		if until, ok := s.until[lease]; ok && now.Before(until) {
			s.until[lease] = now.Add(ttl)
			out[i] = renewal.Renewed
			continue
		}
		delete(s.until, lease)
		out[i] = renewal.Lost
	}
}

// renewBeside renews a lease as somebody does who is not the watchdog.
func (s *server) renewBeside(entry *renewal.Entry[string], there, back time.Duration) {
	sent, out := time.Now(), make([]renewal.Outcome, 1)
	time.Sleep(there)
	s.execute([]string{entry.Lease()}, out)
	time.Sleep(back)
	if out[0] == renewal.Renewed {
		entry.Confirm(sent, time.Time{})
	}
}

func (s *server) has(lease string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.until[lease]
	return ok && time.Now().Before(until)
}

// Whatever the server does, and whoever renews beside the watchdog or takes the place of
// a holder, a lease that is Valid is one that the server keeps for the holder, its
// deadline never moves back, Done is closed when it is not valid any more, and a lease
// that was lost or stopped is never valid again. Without faults nothing is lost.
func TestRandomFaultsNeverLeaveAStaleHolder(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
				rng := rand.New(rand.NewPCG(seed, 1))
				s := &server{rng: rand.New(rand.NewPCG(seed, 2)), until: map[string]time.Time{}, calm: seed%5 == 0}
				t.Cleanup(s.late.Wait)
				dog := newDog(t, e, s, &renewal.Options{MaxBatch: 1 + rng.IntN(8), InFlight: 1 + rng.IntN(3), Failures: []int{1, 2, -1}[rng.IntN(3)]})
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
					entry, err := dog.Register(lease, renewal.Grant{TTL: ttl, Sent: sent})
					require.NoError(t, err)
					entries[lease] = entry
				}
				stopped := 0
				for range 600 {
					settle(time.Duration(rng.Int64N(int64(time.Second))))
					for lease, entry := range entries {
						valid := entry.Valid()
						if valid {
							require.True(t, s.has(lease), "lease %s is valid, but the server has it no more", lease)
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
					case n == 0 && entries[lease].Stop():
						stopped++
					case n < 4:
						if next, err := entries[lease].Pass(lease); err == nil {
							entries[lease] = next
						}
					case n < 16:
						entry := entries[lease]
						there, back := rng.Int64N(int64(period)), rng.Int64N(int64(period))
						s.late.Go(func() { s.renewBeside(entry, time.Duration(there), time.Duration(back)) })
					}
				}
				stats := dog.Stats()
				assert.Equal(t, 40, stats.Held+int(stats.Lost())+stopped, "each lease ended once")
				if s.calm {
					assert.Zero(t, stats.Lost(), "no fault, no loss")
				}
			})
		})
	}
}
