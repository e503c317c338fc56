package redisstore

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// FuzzOptions makes stores with arbitrary options. Either New returns an error that names
// the field, or the store works.
func FuzzOptions(f *testing.F) {
	for _, o := range []struct {
		prefix         string
		timeout, place int64
		pool           int
		ttl            int64
	}{
		{ttl: 30e9},
		{prefix: "a{b", ttl: 1e9},
		{prefix: "\x00\r\n*1", ttl: 1e9},
		{timeout: 1, ttl: 1e9},
		{timeout: -1},
		{timeout: math.MaxInt64, ttl: 1e9},
		{place: 1, ttl: 100e6},
		{place: math.MaxInt64, ttl: 1e9},
		{place: -1},
		{pool: 1, ttl: 1e9},
		{pool: 10_000, ttl: 1e9},
		{pool: 10_001},
		{pool: math.MaxInt32},
		{pool: math.MaxInt},
		{pool: math.MinInt},
		{ttl: math.MaxInt64},
		{ttl: 1e6},
		{ttl: -1},
		{prefix: strings.Repeat("p", 5000), ttl: 1e9},
	} {
		f.Add(o.prefix, o.timeout, o.place, o.pool, o.ttl)
	}
	f.Fuzz(func(t *testing.T, prefix string, timeout, place int64, pool int, ttl int64) {
		synctest.Test(t, func(t *testing.T) {
			p := newScriptedServer([]byte("*2\r\n:1\r\n$2\r\n17\r\n\x1e*0\r\n\x1e:1\r\n"), nil)
			rdb, end := p.client()
			defer end()
			s, err := New(rdb, &Options{Prefix: prefix, Timeout: time.Duration(timeout), Place: time.Duration(place), PoolSize: pool})
			if err != nil {
				require.ErrorContains(t, err, "redisstore: Options.")
				return
			}
			defer s.Close()
			r := driver.Request{Key: "k", Owner: "c:1", TTL: time.Duration(ttl)}
			l, err := s.Acquire(t.Context(), r)
			if r.TTL < time.Millisecond {
				require.ErrorIs(t, err, driver.ErrBadTTL)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, l))
			require.NoError(t, s.Release(t.Context(), l))
			if r.TTL >= driver.MinTTL {
				lasts := s.place(r.TTL)
				assert.GreaterOrEqual(t, lasts, min(r.TTL/10, maxPlace)-time.Millisecond)
				assert.LessOrEqual(t, lasts, r.TTL)
				assert.Equal(t, lasts, lasts.Truncate(time.Millisecond))
			}
		})
	})
}
