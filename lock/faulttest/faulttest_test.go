package faulttest_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/faulttest"
	"github.com/leasewheel/leasewheel/lock/fence"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

type function = func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error

// The goroutine that leavesGoroutine leaves behind is blocked in a bubble that is over.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/leasewheel/leasewheel/lock/faulttest_test.beat"))
}

// seeds is how many schedules the right programs of the table pass; FAULTTEST_SEEDS replaces it.
func seeds(t *testing.T) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("FAULTTEST_SEEDS"), "150"))
	require.NoError(t, err)
	return n
}

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
	for name, f := range right {
		t.Run(name, func(t *testing.T) { faulttest.Run(t, seeds(t), f) })
	}
}

// pause returns after d, or with false when ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// write is a write whose failure the function accepts, unless ctx has ended.
func write(ctx context.Context, r *faulttest.Resource) bool {
	return r.Write(ctx) == nil || ctx.Err() == nil
}

// under runs f with the ctx of a handle, and then unlocks it.
func under(ctx context.Context, held *lock.Held, f func(ctx context.Context)) error {
	inner, stop := held.Context(ctx)
	defer stop()
	f(inner)
	return held.Unlock(context.WithoutCancel(ctx))
}

// export locks "a" and lets the client of the terms take the lock over, as another process does.
func export(ctx context.Context, locks, resumes *lock.Client) (*lock.Held, error) {
	held, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return nil, err
	}
	exported, err := held.Export()
	if err != nil {
		return nil, errors.Join(err, held.Unlock(context.WithoutCancel(ctx)))
	}
	resumed, err := resumes.Resume(ctx, exported)
	if err != nil {
		return nil, errors.Join(err, held.Unlock(context.WithoutCancel(ctx)))
	}
	_ = held.Detach() // it may be lost, as the exporter sees it
	return resumed, nil
}

// right are programs that faulttest must not accuse.
var right = map[string]function{
	"goroutines that end with ctx": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		return lock.Do(ctx, c.Mutex("a"), func(ctx context.Context, _ *lock.Held) error {
			var writers sync.WaitGroup
			for range 4 {
				writers.Go(func() {
					for range 4 {
						if !write(ctx, r) || !pause(ctx, 7*time.Second) {
							return
						}
					}
				})
			}
			writers.Wait()
			return nil
		})
	},
	"a goroutine that ends after the return": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		go pause(context.Background(), 4*time.Minute)
		go func() { <-ctx.Done() }()
		return lock.Do(ctx, c.Mutex("a"), func(ctx context.Context, _ *lock.Held) error { return r.Write(ctx) })
	},
	"an election": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		return c.Election("e", "me").Run(ctx, func(ctx context.Context, _ *lock.Held) error {
			for alive := true; alive; alive = write(ctx, r) && pause(ctx, 11*time.Second) {
				continue
			}
			return context.Cause(ctx)
		})
	},
	"TryLock again and again": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		for ; ctx.Err() == nil; pause(ctx, 20*time.Second) {
			held, err := c.Mutex("a").TryLock(ctx)
			if err != nil {
				continue
			}
			_ = under(ctx, held, func(ctx context.Context) { _ = write(ctx, r) && pause(ctx, 12*time.Second) && write(ctx, r) })
		}
		return nil
	},
	"fixed and renewed by hand": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		held, err := c.With(lock.Terms{Fixed: true, TTL: 20 * time.Second}).Mutex("a").Lock(ctx)
		if err != nil {
			return err
		}
		return under(ctx, held, func(ctx context.Context) {
			for range 6 {
				if !write(ctx, r) || !pause(ctx, 8*time.Second) {
					return
				}
				_ = held.Renew(ctx, 0)
			}
		})
	},
	"renewed for longer, then for shorter": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		held, err := c.With(lock.Terms{Fixed: true, TTL: 20 * time.Second}).Mutex("a").Lock(ctx)
		if err != nil {
			return err
		}
		return under(ctx, held, func(ctx context.Context) {
			if held.Renew(ctx, 2*time.Minute) == nil && held.Renew(ctx, 10*time.Second) == nil {
				_ = pause(ctx, time.Minute) && write(ctx, r)
			}
		})
	},
	"resumed": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		held, err := export(ctx, c, c)
		if err != nil {
			return err
		}
		return under(ctx, held, func(ctx context.Context) {
			for range 6 {
				if !write(ctx, r) || !pause(ctx, 6*time.Second) {
					return
				}
			}
		})
	},
	"resumed for longer": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		held, err := export(ctx, c.With(lock.Terms{TTL: 20 * time.Second, Fixed: true}), c.With(lock.Terms{TTL: 2 * time.Minute, Fixed: true}))
		if err != nil {
			return err
		}
		return under(ctx, held, func(ctx context.Context) { _ = pause(ctx, 40*time.Second) && write(ctx, r) })
	},
	"left to another process": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		held, err := c.With(lock.Terms{TTL: 20 * time.Minute}).Mutex("a").Lock(ctx)
		if err != nil {
			return err
		}
		inner, stop := held.Context(ctx)
		defer stop()
		_ = r.Write(inner)
		return held.Detach()
	},
	"MinHold": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		for ; ctx.Err() == nil; pause(ctx, time.Minute) {
			held, err := c.With(lock.Terms{MinHold: 50 * time.Second}).Mutex("a").TryLock(ctx)
			if err == nil {
				_ = under(ctx, held, func(ctx context.Context) { _ = r.Write(ctx) })
			}
		}
		return nil
	},
	"MaxHold": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		err := lock.Do(ctx, c.With(lock.Terms{MaxHold: 12 * time.Second}).Mutex("a"), func(ctx context.Context, _ *lock.Held) error {
			for alive := true; alive; alive = write(ctx, r) && pause(ctx, time.Second) {
				continue
			}
			return nil
		})
		if errors.Is(err, lock.ErrLost) {
			return nil
		}
		return err
	},
	"saves its state": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		return c.With(lock.Terms{StateTTL: time.Hour}).Election("job", "me").Run(ctx, func(ctx context.Context, held *lock.Held) error {
			state, _ := held.State()
			for done := len(state); done < 6; done++ {
				if err := r.Write(ctx); err != nil {
					return err
				}
				if err := held.Save(context.WithoutCancel(ctx), make([]byte, done+1)); err != nil || !pause(ctx, 4*time.Second) {
					return err
				}
			}
			return nil
		})
	},
	"becomes a reader": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		m := c.RWMutex("a")
		writer, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		inner, stop := writer.Context(ctx)
		_ = r.Write(inner)
		stop()
		reader, err := m.Downgrade(ctx, writer)
		if err != nil {
			return errors.Join(err, writer.Unlock(context.WithoutCancel(ctx)))
		}
		pause(ctx, 5*time.Second)
		return reader.Unlock(context.WithoutCancel(ctx))
	},
	"a lock inside of another": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		return lock.Do(ctx, c.Mutex("config"), func(ctx context.Context, _ *lock.Held) error {
			return lock.Do(ctx, c.Mutex("orders"), func(ctx context.Context, _ *lock.Held) error {
				return steps(ctx, r.Under("orders").Write)
			})
		})
	},
	"a lock for each order": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		for _, key := range []string{"order 1", "order 2", "order 3"} {
			err := lock.Do(ctx, c.Mutex(key), func(ctx context.Context, held *lock.Held) error {
				order := r.Under(key)
				return errors.Join(order.Write(ctx), order.WriteFenced(ctx, held.Token()))
			})
			if err != nil {
				return err
			}
		}
		return nil
	},
	"two locks with tokens": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		return lock.Do(ctx, lock.Multi(c.Mutex("k"), c.Mutex("l")), func(ctx context.Context, held *lock.Held) error {
			return steps(ctx, func(ctx context.Context) error {
				for _, h := range slices.Backward(held.Handles()) {
					if err := r.Under(h.Key()).WriteFenced(ctx, h.Token()); err != nil {
						return err
					}
				}
				return nil
			})
		})
	},
	"reentrant": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		return lock.Do(ctx, c.Reentrant("a"), func(ctx context.Context, _ *lock.Held) error {
			return lock.Do(ctx, c.Reentrant("a"), func(ctx context.Context, _ *lock.Held) error { return steps(ctx, r.Write) })
		})
	},
	"a short TTL": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		return lock.Do(ctx, c.With(lock.Terms{TTL: 200 * time.Millisecond}).Mutex("a"), func(ctx context.Context, _ *lock.Held) error {
			for range 20 {
				if !write(ctx, r) || !pause(ctx, 70*time.Millisecond) {
					break
				}
			}
			return nil
		})
	},
	"several permits": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		return lock.Do(ctx, lock.WaitAtMost(c.Semaphore("s", 3).WithPermits(2), 2*time.Second), func(ctx context.Context, _ *lock.Held) error {
			return steps(ctx, r.Write)
		})
	},
	"closes its client": func(ctx context.Context, c *lock.Client, r *faulttest.Resource) error {
		err := lock.Do(ctx, c.Mutex("a"), func(ctx context.Context, _ *lock.Held) error { return r.Write(ctx) })
		return errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	},
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
			faulttest.Run(t, seeds(t), func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
				return lock.Do(ctx, kind(client), func(ctx context.Context, _ *lock.Held) error { return steps(ctx, r.Write) })
			})
			err := faulttest.Find(t, 200, func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
				return lock.Do(ctx, kind(client), func(context.Context, *lock.Held) error { return steps(context.Background(), r.Write) })
			})
			assert.ErrorContains(t, err, "after the loss of its lock")
		})
	}
}

// Each state ends all calls, also those without a ctx that ends, and Close.
func TestServer(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(s *faulttest.Server) // after a second of Hang
		took time.Duration
		err  string // "" if the call succeeds
	}{
		"Resume":  {(*faulttest.Server).Resume, time.Second, ""},
		"Fail":    {func(s *faulttest.Server) { s.Fail(errors.New("no route")) }, time.Second, "no route"},
		"nothing": {func(*faulttest.Server) {}, 3 * time.Second, "no answer within 3s"},
		"Hang":    {(*faulttest.Server).Hang, 3 * time.Second, "no answer within 3s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				s := faulttest.NewServer(mem)
				client, err := lock.New(s, nil)
				require.NoError(t, err)
				held, err := client.Mutex("k").Lock(context.Background())
				require.NoError(t, err)
				s.Hang()
				time.AfterFunc(time.Second, func() { c.end(s) })
				began := time.Now()
				_, err = s.Acquire(context.Background(), driver.Request{Key: "other", Owner: "o", TTL: time.Minute})
				assert.Equal(t, c.took, time.Since(began))
				if c.err == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, c.err)
				}
				_ = held.Unlock(context.Background())
				_ = client.Close(context.Background())
			})
		})
	}
}

// What a server has executed while it hangs is not answered.
func TestAServerThatHangsHoldsAnswersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := faulttest.NewServer(memstore.New())
		ask := func(owner string, ttl time.Duration) (driver.Lease, error) {
			return s.Wait(t.Context(), driver.Request{Key: "k", Owner: owner, TTL: ttl}, func() {})
		}
		_, err := ask("a", 2*time.Second)
		require.NoError(t, err)
		time.AfterFunc(time.Second, s.Hang)
		l, err := ask("b", time.Minute)
		require.ErrorContains(t, err, "no answer")
		assert.True(t, l.Unanswered)
		s.Resume()
		require.NoError(t, s.Shutdown(t.Context()))
	})
}

// happened matches each fault in a report but an early end of ctx.
var happened = regexp.MustCompile("process stops|store fails|store hangs|request is lost|answer is lost|answer of the write is lost|is taken away|a write fails")

// beat is the heartbeat that nobody stops.
func beat() {
	for range time.Tick(time.Second) {
	}
}

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
		"outlives Do": {function: func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
			go func() {
				time.Sleep(2 * time.Minute)
				_ = r.Write(context.Background())
			}()
			return lock.Do(ctx, client.Mutex("orders"), func(ctx context.Context, _ *lock.Held) error { return r.Write(ctx) })
		}, shows: `wrote 2m0s after Unlock`},
		"leaves a goroutine": {function: func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
			return lock.Do(ctx, client.Mutex("orders"), func(ctx context.Context, _ *lock.Held) error {
				if err := r.Write(ctx); err != nil {
					go beat()
				}
				return nil
			})
		}, shows: `faulttest: seed \d+: your function has left a goroutine behind, which still runs 5m0s after its return \(started at faulttest_test.go:\d+\)\n\n(.*\n)*.* a write fails`},
		"panics": {function: do(func(ctx context.Context, _ *lock.Client, _ *lock.Held, r *faulttest.Resource) error {
			if err := r.Write(ctx); err != nil {
				panic("cannot write")
			}
			return nil
		}), shows: `faulttest: seed \d+: your function panicked \(faulttest_test.go:\d+\): cannot write\n\n(.*\n)*.* a write fails`},
		"ends its goroutine": {function: do(func(ctx context.Context, _ *lock.Client, _ *lock.Held, r *faulttest.Resource) error {
			if err := r.Write(ctx); err != nil {
				runtime.Goexit()
			}
			return nil
		}), shows: `faulttest: seed \d+: your function has called runtime.Goexit`},
		"never returns": {function: do(func(context.Context, *lock.Client, *lock.Held, *faulttest.Resource) error {
			beat()
			return nil
		}), shows: `without any fault: your function has not returned 5m0s after its ctx has ended: it does not heed its ctx`},
		"writes under another lock": {function: func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
			return lock.Do(ctx, client.Mutex("config"), func(ctx context.Context, _ *lock.Held) error {
				held, err := client.Mutex("orders").Lock(ctx)
				if err != nil {
					return err
				}
				defer held.Unlock(context.WithoutCancel(ctx))
				return steps(ctx, r.Under("orders").Write) // the ctx of config
			})
		}, shows: `after the loss of its lock`},
		"locks another key": {function: func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
			return lock.Do(ctx, client.Mutex("order-1"), func(ctx context.Context, _ *lock.Held) error { return r.Under("orders").Write(ctx) })
		}, shows: `without any fault: your function wrote without the lock "orders"`},
		"sends the token of another lock": {function: func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
			return lock.Do(ctx, client.Mutex("config"), func(ctx context.Context, held *lock.Held) error {
				return r.Under("orders").WriteFenced(ctx, held.Token())
			})
		}, shows: `which was not granted to it`},
		"writes as a reader": {function: func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
			return lock.Do(ctx, client.RWMutex("orders").RLocker(), func(ctx context.Context, _ *lock.Held) error { return r.Write(ctx) })
		}, shows: `wrote under "orders" as a reader`},
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
