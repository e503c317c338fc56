package driver_test

import (
	"context"
	"errors"
	"reflect"
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
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each method is called by reflection, so that a new method cannot be missed.
func TestEachMethodOfAWrappedStoreIsForwarded(t *testing.T) {
	request := driver.Request{Key: "k"}
	one, two := []driver.Lease{{Request: request}}, make([]driver.Lease, 2)
	calls := []struct {
		method string
		args   []any
		op     driver.Call // name and key; zero: not passed to around
	}{
		{"Acquire", []any{request}, driver.Call{Name: "acquire", Key: "k"}},
		{"Wait", []any{request, func() {}}, driver.Call{Name: "wait", Key: "k"}},
		{"Renew", []any{one, make([]renewal.Outcome, 1)}, driver.Call{Name: "renew", Key: "k"}},
		{"Renew", []any{two, make([]renewal.Outcome, 2)}, driver.Call{Name: "renew"}},
		{"Release", []any{one[0]}, driver.Call{Name: "release", Key: "k"}},
		{"ReleaseAll", []any{one, make([]error, 1)}, driver.Call{Name: "release", Key: "k"}},
		{"ReleaseAll", []any{two, make([]error, 2)}, driver.Call{Name: "release"}},
		{"Inspect", []any{"k"}, driver.Call{Name: "inspect", Key: "k"}},
		{"ForceRelease", []any{"k"}, driver.Call{Name: "force release", Key: "k"}},
		{"List", []any{"p", "cursor"}, driver.Call{Name: "list", Key: "p"}},
		{"SetMetadata", []any{one[0], "m"}, driver.Call{Name: "set metadata", Key: "k"}},
		{"Save", []any{one[0], uint64(1), []byte("state"), time.Hour}, driver.Call{Name: "save", Key: "k"}},
		{"Forget", []any{"k"}, driver.Call{Name: "forget", Key: "k"}},
		{"Watch", []any{one[0], func() {}}, driver.Call{}},
		{"ReportEvents", []any{func(renewal.Event) {}}, driver.Call{}},
		{"Shutdown", nil, driver.Call{}},
		{"Lane", []any{one[0]}, driver.Call{}},
		{"Import", []any{one[0]}, driver.Call{}},
		{"Describe", nil, driver.Call{}},
	}
	type span struct{}
	tested := map[string]bool{}
	for _, c := range calls {
		tested[c.method] = true
		var begun []driver.Call
		var ended []error
		store := new(completeStore)
		observed := driver.Wrap(store, func(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
			begun = append(begun, driver.Call{Name: c.Name, Key: c.Key})
			err := next(context.WithValue(ctx, span{}, c.Name))
			ended = append(ended, err)
			return err
		})
		method := reflect.ValueOf(observed).MethodByName(c.method)
		var args []reflect.Value
		if method.Type().NumIn() > len(c.args) {
			args = append(args, reflect.ValueOf(t.Context()))
		}
		for _, arg := range c.args {
			args = append(args, reflect.ValueOf(arg))
		}
		results := method.Call(args)
		require.Equal(t, c.method, store.called)
		if len(results) == 0 {
			results = []reflect.Value{reflect.ValueOf(true)}
		}
		switch last := results[len(results)-1].Interface().(type) {
		case error:
			assert.ErrorIs(t, last, errComplete, c.method)
		case int:
			assert.Equal(t, 7, last)
		case driver.Description:
			assert.Equal(t, complete, last)
		}
		if c.op.Name == "" {
			assert.Empty(t, begun, c.method)
			continue
		}
		assert.Equal(t, []driver.Call{c.op}, begun)
		assert.Equal(t, []error{errComplete}, ended)
		assert.Equal(t, c.op.Name, store.ctx.Value(span{}))
	}
	for method := range reflect.TypeFor[driver.Store]().Methods() {
		assert.True(t, tested[method.Name], method.Name)
	}
}

// around may replace results, as a wrapper does that loses answers.
func TestAroundMayChangeArgumentsAndResults(t *testing.T) {
	store := memstore.New()
	wrapped := driver.Wrap(store, func(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
		c.Request.Key = "other"
		err := next(ctx)
		c.Granted.Token = 7
		return err
	})
	l, err := wrapped.Acquire(t.Context(), driver.Request{Key: "k", Owner: "o", TTL: time.Minute})
	require.NoError(t, err)
	assert.Equal(t, uint64(7), l.Token)
	assert.Zero(t, store.ExpiresIn("k"))
	assert.Positive(t, store.ExpiresIn("other"))
	require.NoError(t, store.Close())
}

// Wrap's function calls the client, which would block forever if a lock of it were held.
func TestAroundMayUseTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards client and ops
		var client *lock.Client
		ops := map[string]int{}
		use := func() {
			mu.Lock()
			c := client
			mu.Unlock()
			if c != nil {
				c.Stats()
				_, err := c.Mutex("free").TryLock(context.Background())
				assert.Error(t, err)
			}
		}
		store := driver.Wrap(memstore.New(), func(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
			if c.Key == "free" {
				return next(ctx) // a call of use
			}
			mu.Lock()
			ops[c.Name+" "+c.Key]++
			mu.Unlock()
			use()
			defer use()
			return next(ctx)
		})
		c, err := lock.New(store, &lock.Options{WarnAfter: -1}) // a report would inspect the lock, too
		require.NoError(t, err)
		_, err = c.Mutex("free").Lock(t.Context())
		require.NoError(t, err)
		mu.Lock()
		client = c
		mu.Unlock()

		a, err := c.Mutex("a").Lock(t.Context())
		require.NoError(t, err)
		waited := make(chan error)
		go func() {
			_, err := c.Mutex("a").Lock(t.Context())
			waited <- err
		}()
		synctest.Wait()
		_, err = c.Inspect(t.Context(), "a")
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, a.Unlock(t.Context()))
		require.NoError(t, <-waited)
		require.NoError(t, c.ForceRelease(t.Context(), "a"))
		time.Sleep(time.Minute)
		require.NoError(t, c.Close(t.Context()))

		mu.Lock()
		defer mu.Unlock()
		renewed := 0
		for op, n := range ops {
			if strings.HasPrefix(op, "renew ") {
				renewed += n
			}
		}
		assert.Positive(t, renewed)
		assert.Equal(t, 2, ops["wait a"], "no poll: %v", ops)
		assert.Positive(t, ops["release a"])
		assert.Equal(t, 1, ops["inspect a"])
		assert.Equal(t, 1, ops["force release a"])
	})
}

var errComplete = errors.New("the error of a complete store")

// completeStore records the last call.
type completeStore struct {
	called string
	ctx    context.Context //nolint:containedctx // of the last call
}

func (s *completeStore) record(ctx context.Context, method string) error {
	s.called, s.ctx = method, ctx
	return errComplete
}

func (s *completeStore) Acquire(ctx context.Context, _ driver.Request) (driver.Lease, error) {
	return driver.Lease{}, s.record(ctx, "Acquire")
}

func (s *completeStore) Wait(ctx context.Context, _ driver.Request, _ func()) (driver.Lease, error) {
	return driver.Lease{}, s.record(ctx, "Wait")
}

func (s *completeStore) Renew(ctx context.Context, _ []driver.Lease, _ []renewal.Outcome) error {
	return s.record(ctx, "Renew")
}

func (s *completeStore) Release(ctx context.Context, _ driver.Lease) error {
	return s.record(ctx, "Release")
}

func (s *completeStore) ReleaseAll(ctx context.Context, _ []driver.Lease, _ []error) error {
	return s.record(ctx, "ReleaseAll")
}

func (s *completeStore) Inspect(ctx context.Context, _ string) (driver.Info, error) {
	return driver.Info{}, s.record(ctx, "Inspect")
}

func (s *completeStore) ForceRelease(ctx context.Context, _ string) error {
	return s.record(ctx, "ForceRelease")
}

func (s *completeStore) List(ctx context.Context, _, _ string) ([]string, string, error) {
	return nil, "", s.record(ctx, "List")
}

func (s *completeStore) SetMetadata(ctx context.Context, _ driver.Lease, _ string) error {
	return s.record(ctx, "SetMetadata")
}

func (s *completeStore) Save(ctx context.Context, _ driver.Lease, _ uint64, _ []byte, _ time.Duration) error {
	return s.record(ctx, "Save")
}

func (s *completeStore) Forget(ctx context.Context, _ string) error { return s.record(ctx, "Forget") }

func (s *completeStore) Shutdown(ctx context.Context) error { return s.record(ctx, "Shutdown") }

func (s *completeStore) ReportEvents(func(renewal.Event)) { s.called = "ReportEvents" }

func (s *completeStore) Watch(driver.Lease, func()) func() {
	s.called = "Watch"
	return nil
}

func (s *completeStore) Lane(driver.Lease) int {
	s.called = "Lane"
	return 7
}

func (s *completeStore) Import(driver.Lease) (driver.Lease, error) {
	return driver.Lease{}, s.record(context.Background(), "Import")
}

var complete = driver.Description{
	TTL:       driver.TTLLimits{Step: time.Second},
	Keeps:     driver.ModesOf(driver.Members),
	Waits:     true,
	Yields:    driver.ModesOf(driver.Read),
	Unordered: driver.ModesOf(driver.Write),
	Addresses: []string{"host:1"},
	Replicas:  driver.ReplicaStats{Enough: 1, TooFew: 2, Unanswered: 3},
}

func (s *completeStore) Describe() driver.Description {
	s.called = "Describe"
	return complete
}
