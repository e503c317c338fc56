package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestAClientShowsLocks(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		ctx := context.Background()
		h := b.lock("k")
		info, err := b.Inspect(ctx, "k")
		require.NoError(t, err)
		b.lock("k2")
		second, err := b.Inspect(ctx, "k2")
		require.NoError(t, err)
		name := second.Holders[0].Client
		assert.Len(t, name, 16)
		holder := driver.Holder{Token: h.Token(), ExpiresIn: ttl, Client: name}
		assert.Equal(t, lock.Info{Holders: []driver.Holder{holder}, Held: 1, Token: h.Token()}, info)

		require.NoError(t, b.ForceRelease(ctx, "k"))
		start := time.Now()
		<-h.Done()
		assert.LessOrEqual(t, time.Since(start), ttl/3, "the holder is told within one period")
		var lost *renewal.LostError
		require.ErrorAs(t, h.Err(), &lost)
		assert.Equal(t, renewal.ReasonNotOwned, lost.Reason)
		require.ErrorIs(t, b.ForceRelease(ctx, "k"), lock.ErrNotHeld)
	})
}

func TestMetadataOfTerms(t *testing.T) {
	long := strings.Repeat("m", lock.MaxMetadataLen)
	for _, waits := range []bool{false, true} {
		bubbleOn(t, &lock.Options{Terms: lock.Terms{Metadata: "host 1"}}, waits, func(t *testing.T, b *bench) {
			shown := func(l lock.Locker, key string) string {
				h, err := l.Lock(context.Background())
				require.NoError(t, err)
				settle(ttl)
				require.NoError(t, h.Err(), "it is renewed")
				info, err := b.mem.Inspect(context.Background(), key)
				require.NoError(t, err)
				require.NoError(t, h.Unlock(context.Background()))
				return info.Holders[0].Metadata
			}
			assert.Equal(t, "host 1", shown(b.Mutex("a"), "a"))
			assert.Equal(t, "host 1", shown(b.Semaphore("s", 2), "s"))
			assert.Equal(t, "host 1", shown(b.Batch("b", "x", "y"), "b"))
			assert.Equal(t, long, shown(b.With(lock.Terms{Metadata: long}).Mutex("a"), "a"))
			assert.Equal(t, "host 1", shown(b.With(lock.Terms{TTL: time.Minute}).Semaphore("s", 2), "s"))
			_, err := b.With(lock.Terms{Metadata: long + "m"}).Mutex("a").TryLock(context.Background())
			require.ErrorContains(t, err, "Terms.Metadata must have at most 1024 bytes, got 1025")
		})
	}
}

func TestLooksThatFail(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		var none context.Context
		looks := map[string]func(ctx context.Context, c *lock.Client, key string) error{
			"inspect": func(ctx context.Context, c *lock.Client, key string) error {
				_, err := c.Inspect(ctx, key)
				return err
			},
			"force the release of": func(ctx context.Context, c *lock.Client, key string) error { return c.ForceRelease(ctx, key) },
		}
		for verb, look := range looks {
			ctx := context.Background()
			require.ErrorIs(t, look(ctx, b.Client, ""), lock.ErrBadKey)
			require.Error(t, look(none, b.Client, "k"))
			require.Error(t, look(ctx, nil, "k"))
			b.loseRequests(func(context.Context, locktest.Op) error { return errIO })
			err := look(ctx, b.Client, "k")
			require.ErrorIs(t, err, errIO)
			require.ErrorContains(t, err, verb+` "k"`)
			b.heal()
		}
	})
}

// A client refuses what its store cannot do, also through a wrapper.
func TestAClientRefusesWhatItsStoreCannotDo(t *testing.T) {
	for _, store := range []driver.Store{locktest.Plain(memstore.New()), new(locktest.Faulty).Over(locktest.Plain(memstore.New()))} {
		for want, terms := range map[string]lock.Terms{
			"lock: the store cannot keep a mutex after its release (Terms.MinHold): ": {MinHold: time.Second},
			"lock: the store cannot keep a state beside a lock (Terms.StateTTL): ":    {StateTTL: time.Hour},
		} {
			_, err := lock.New(store, &lock.Options{Terms: terms})
			require.ErrorIs(t, err, errors.ErrUnsupported)
			require.ErrorContains(t, err, want)
		}
		c, err := lock.New(store, nil)
		require.NoError(t, err)
		whole := memstoreClient(t)
		e, h := c.Election("e", "a"), lockAll(t, c.Mutex("k"))
		leads := lockAll(t, e)
		_, inspected := c.Inspect(ctx, "k")
		_, listed := listed(ctx, c, "")
		_, candidates := e.Candidates(ctx)
		_, exported := h.Export()
		_, resumed := c.Resume(ctx, export(t, lockAll(t, whole.Mutex("k"))))
		_, kept := c.With(lock.Terms{MinHold: time.Second}).Mutex("j").TryLock(ctx)
		_, stateful := c.With(lock.Terms{StateTTL: time.Hour}).Mutex("j").Lock(ctx)
		quorum, err := quorumstore.New(store, memstore.New())
		require.NoError(t, err)
		_, ofQuorum := quorum.Inspect(ctx, "k")
		for _, err := range []error{
			inspected, listed, candidates, exported, resumed, kept, stateful, ofQuorum,
			c.ForceRelease(ctx, "k"), c.Forget(ctx, "k"), e.Proclaim(ctx, leads, "b"),
		} {
			require.ErrorIs(t, err, errors.ErrUnsupported)
		}
		require.EqualError(t, exported, `lock: export "k": the store cannot export its leases: unsupported operation`)
		require.ErrorContains(t, candidates, "no queue")
		require.ErrorContains(t, e.Proclaim(ctx, leads, "b"), "cannot change metadata")
		require.NoError(t, quorum.Close())
		require.NoError(t, c.Close(ctx))
	}
}
