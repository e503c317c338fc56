package demo

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// assertFits asserts that no line needs more than 80 columns.
func assertFits(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
	}
}

// slow is a store whose calls for a single lease take a second.
type slow struct {
	driver.Store
	acquired, released atomic.Int64
}

func (s *slow) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	select {
	case <-time.After(time.Second):
		l, err := s.Store.Acquire(context.WithoutCancel(ctx), r)
		if err == nil {
			s.acquired.Add(1)
		}
		return l, err
	case <-ctx.Done():
		return driver.Lease{}, context.Cause(ctx)
	}
}

func (s *slow) Release(ctx context.Context, l driver.Lease) error {
	time.Sleep(time.Second)
	err := s.Store.Release(ctx, l)
	if err == nil {
		s.released.Add(1)
	}
	return err
}

func TestAnInterruptWhileAcquiringReleasesWhatIsHeld(t *testing.T) {
	store := &slow{Store: locktest.Plain(memstore.New())}
	synctest.Test(t, func(t *testing.T) {
		c, err := parse([]string{"-leases", "500"}, io.Discard)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		var out strings.Builder
		err = runOn(ctx, &backend{Store: store, Disconnect: func() {}}, c, &screen{w: &out})
		require.ErrorIs(t, err, errInterrupted)
		assert.Equal(t, "interrupted: released 128 leases", err.Error())
		assert.NotContains(t, out.String(), "acquired in")
	})
	assert.EqualValues(t, 128, store.acquired.Load())
	assert.EqualValues(t, 128, store.released.Load())
}

func TestAProofWithoutRedisUsesTwoClients(t *testing.T) {
	t.Setenv("PATH", "")
	synctest.Test(t, func(t *testing.T) {
		c, err := parse([]string{"-proof"}, io.Discard)
		require.NoError(t, err)
		var out strings.Builder
		require.NoError(t, prove(t.Context(), c, &screen{w: &out}))
		assert.Contains(t, out.String(), "two clients in one process")
		assert.Contains(t, out.String(), "from the holder's notice to the rival's lock")
		assertFits(t, out.String())
		assertARivalComesAfterTheLease(t, out.String(), c.ttl)
	})
}

// assertARivalComesAfterTheLease checks the time lines of a proof: the last renewal, the fault right after it, the end of
// the lease a TTL later, and then the rival.
func assertARivalComesAfterTheLease(t *testing.T, out string, ttl time.Duration) {
	t.Helper()
	at := func(line string) time.Duration {
		_, seconds, ok := strings.Cut(line, "\n")
		require.True(t, ok)
		d, err := time.ParseDuration(strings.TrimSpace(seconds) + "s")
		require.NoError(t, err, out)
		return d
	}
	for i, part := range strings.Split(out, "The holder is ")[1:] {
		var times []time.Duration
		for _, text := range []string{"holder  renews the lock, until ", "holder  is now ", "store   ends the lease, ", "rival   has the lock, "} {
			before, _, ok := strings.Cut(part, " s  "+text)
			require.True(t, ok, "no line %q in part %d of %s", text, i, out)
			times = append(times, at(before[strings.LastIndexByte(before, '\n'):]))
		}
		assert.True(t, slices.IsSorted(times), "%v in %s", times, out)
		assert.Equal(t, ttl, times[2]-times[0], out)
	}
}

func TestAProofFailsIfHolderAndRivalOverlap(t *testing.T) {
	p := &proof{screen: &screen{w: io.Discard}}
	now := time.Now()
	require.NoError(t, p.verdict(now, now.Add(1), "the holder's notice"))
	require.ErrorContains(t, p.verdict(now, now, "the holder's notice"), "the rival had the lock 0s before the holder's notice")
}

func TestAddressesOfRedis(t *testing.T) {
	for url, want := range map[string]string{
		"localhost:6379": "localhost:6379", "localhost": "localhost:6379", "/tmp/redis.sock": "/tmp/redis.sock",
		"redis://example.org:7000/1": "example.org:7000",
	} {
		opts, err := redisOptions(url)
		require.NoError(t, err, url)
		assert.Equal(t, want, opts.Addr)
	}
	_, err := redisOptions("http://user:canary@localhost")
	require.EqualError(t, err, "-store must be an address such as localhost:6379 or a URL such as redis://localhost:6379/0")
}
