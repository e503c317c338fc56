package faulttest_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/faulttest"
	"github.com/leasewheel/leasewheel/lock/fence"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

type function = func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// steps calls a step five times, 5 s apart.
func steps(ctx context.Context, step func(ctx context.Context) error) error {
	for range 5 {
		if err := step(ctx); err != nil {
			return err
		}
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// heedsCtx is right.
func heedsCtx(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
	return lock.Do(ctx, client.Mutex("orders"), func(ctx context.Context, _ *lock.Held) error { return steps(ctx, r.Write) })
}

// asksValid is right, unless its process stops between the check and the write.
func asksValid(ctx context.Context, client *lock.Client, r *faulttest.Resource) (err error) {
	held, err := client.Mutex("orders").Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Unlock(ctx)) }()
	return steps(context.Background(), func(ctx context.Context) error {
		if !held.Valid() {
			return held.Err()
		}
		return r.Write(ctx)
	})
}

// sendsTokens is right.
func sendsTokens(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
	for {
		err := lock.Do(ctx, client.Mutex("orders"), func(_ context.Context, held *lock.Held) error {
			return steps(context.Background(), func(ctx context.Context) error { return r.WriteFenced(ctx, held.Token()) })
		})
		if !errors.Is(err, fence.ErrStale) {
			return err
		}
	}
}

// TestBesideOtherClients has something to find for the race detector only.
func TestBesideOtherClients(t *testing.T) {
	played := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for {
			client, err := lock.New(memstore.New(), nil)
			if !assert.NoError(t, err) || !assert.NoError(t, client.Close(context.Background())) {
				return
			}
			select {
			case <-played:
				return
			default:
			}
		}
	})
	faulttest.Run(t, 20, heedsCtx)
	close(played)
	others.Wait()
}

func TestFunctionsThatAreRight(t *testing.T) {
	t.Run("heeds ctx", func(t *testing.T) { faulttest.Run(t, 1000, heedsCtx) })
	t.Run("asks Valid", func(t *testing.T) { faulttest.Run(t, 1000, asksValid) })
	t.Run("sends tokens", func(t *testing.T) { faulttest.Run(t, 1000, sendsTokens) })
	t.Run("sends tokens, fenced", func(t *testing.T) { faulttest.RunFenced(t, 1000, sendsTokens) })
}

// TestAResourceRefusesStaleTokens also shows that schedules have writes with them.
func TestAResourceRefusesStaleTokens(t *testing.T) {
	stale := 0
	faulttest.RunFenced(t, 200, func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
		err := lock.Do(ctx, client.Mutex("orders"), func(_ context.Context, held *lock.Held) error {
			return steps(context.Background(), func(ctx context.Context) error { return r.WriteFenced(ctx, held.Token()) })
		})
		if errors.Is(err, fence.ErrStale) {
			stale++
		}
		return err
	})
	assert.Positive(t, stale)
}

func TestKinds(t *testing.T) {
	for name, kind := range map[string]func(c *lock.Client) lock.Locker{
		"reentrant": func(c *lock.Client) lock.Locker { return c.Reentrant("k") },
		"writer":    func(c *lock.Client) lock.Locker { return c.RWMutex("k") },
		"permit":    func(c *lock.Client) lock.Locker { return c.Semaphore("k", 2) },
		"batch":     func(c *lock.Client) lock.Locker { return c.Batch("k", "a", "b") },
		"several":   func(c *lock.Client) lock.Locker { return lock.Multi(c.Mutex("k"), c.Mutex("l")) },
		"leader":    func(c *lock.Client) lock.Locker { return c.Election("k", "name") },
		"fixed":     func(c *lock.Client) lock.Locker { return c.With(lock.Terms{Fixed: true}).Mutex("k") },
		"short":     func(c *lock.Client) lock.Locker { return c.With(lock.Terms{TTL: 10 * time.Second}).Mutex("k") },
	} {
		t.Run(name, func(t *testing.T) {
			faulttest.Run(t, 200, func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
				return lock.Do(ctx, kind(client), func(ctx context.Context, _ *lock.Held) error { return steps(ctx, r.Write) })
			})
			err := faulttest.Find(t, 200, func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
				return lock.Do(ctx, kind(client), func(context.Context, *lock.Held) error { return steps(context.Background(), r.Write) })
			})
			assert.ErrorContains(t, err, "after the loss of its lock")
		})
	}
}

// happened matches each fault in a report but an early end of ctx.
var happened = regexp.MustCompile("process stops|store fails|store hangs|request is lost|answer is lost|answer of the write is lost|is taken away|a write fails")

func TestMistakes(t *testing.T) {
	do := func(f func(context.Context, *lock.Client, *lock.Held, *faulttest.Resource) error) function {
		return func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
			return lock.Do(ctx, client.Mutex("orders"), func(ctx context.Context, held *lock.Held) error { return f(ctx, client, held, r) })
		}
	}
	for name, test := range map[string]struct {
		fenced   bool
		function function
		shows    string // in the message
	}{
		"ignores ctx": {function: do(func(_ context.Context, _ *lock.Client, _ *lock.Held, r *faulttest.Resource) error {
			return steps(context.Background(), r.Write)
		}), shows: `wrote \d.* after the loss of its lock \(faulttest_test.go:\d+\): pass ctx`},
		"writes after Unlock": {function: func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
			held, err := client.Mutex("orders").Lock(ctx)
			if err != nil {
				return err
			}
			_ = held.Unlock(ctx)
			time.Sleep(time.Second)
			return r.Write(ctx)
		}, shows: `without any fault: your function wrote 1s after Unlock`},
		"goes on without the lock": {function: func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
			held, err := client.Mutex("orders").Lock(ctx)
			if err == nil {
				defer held.Unlock(ctx)
			}
			return r.Write(ctx)
		}, shows: `wrote without a lock`},
		"forgets Unlock after an error": {function: func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
			held, err := client.Mutex("orders").Lock(ctx)
			if err != nil {
				return err
			}
			if err := r.Write(ctx); err != nil {
				return err
			}
			return held.Unlock(ctx)
		}, shows: `left the lock "orders" behind`},
		"waits for ever": {function: func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
			held, err := client.Mutex("orders").Lock(context.WithoutCancel(ctx))
			if err != nil {
				return err
			}
			return errors.Join(r.Write(ctx), held.Unlock(ctx))
		}, shows: `has not returned 5m0s after its ctx has ended: it waits in Lock`},
		"heeds no ctx": {function: do(func(ctx context.Context, _ *lock.Client, held *lock.Held, r *faulttest.Resource) error {
			time.Sleep(11 * time.Minute)
			return nil
		}), shows: `it does not heed its ctx`},
		"asks Valid where a token is needed": {fenced: true, function: asksValid, shows: `only a token protects`},
		"sends another number": {function: do(func(ctx context.Context, _ *lock.Client, _ *lock.Held, r *faulttest.Resource) error {
			return r.WriteFenced(ctx, 7)
		}), shows: `wrote with the token 7, which was not granted`},
		"locks nothing": {function: func(context.Context, *lock.Client, *faulttest.Resource) error { return nil }, shows: "acquires no lock"},
		"fails": {function: do(func(context.Context, *lock.Client, *lock.Held, *faulttest.Resource) error {
			return errors.New("no rights")
		}), shows: "without any fault: your function fails: no rights"},
	} {
		t.Run(name, func(t *testing.T) {
			find := faulttest.Find
			if test.fenced {
				find = faulttest.FindFenced
			}
			err := find(t, 1000, test.function)
			require.Error(t, err)
			t.Log(err)
			assert.Regexp(t, test.shows, err.Error())
			if strings.HasPrefix(err.Error(), "faulttest: seed ") {
				assert.Len(t, happened.FindAllString(err.Error(), -1), 1, "the shortest schedule has one fault")
			}
			assert.EqualError(t, find(t, 1000, test.function), err.Error(), "a seed plays the same schedule again")
		})
	}
}
