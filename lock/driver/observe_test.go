package driver_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shutdowner is a store whose closing may take long.
type shutdowner interface {
	Shutdown(ctx context.Context) error
}

// optional lists the interfaces that a store may implement besides Store.
var optional = map[string]reflect.Type{
	"Waiter":         reflect.TypeFor[driver.Waiter](),
	"BulkReleaser":   reflect.TypeFor[driver.BulkReleaser](),
	"Inspector":      reflect.TypeFor[driver.Inspector](),
	"Lister":         reflect.TypeFor[driver.Lister](),
	"MetadataSetter": reflect.TypeFor[driver.MetadataSetter](),
	"Saver":          reflect.TypeFor[driver.Saver](),
	"Describer":      reflect.TypeFor[driver.Describer](),
	"Exporter":       reflect.TypeFor[driver.Exporter](),
	"Resumer":        reflect.TypeFor[driver.Resumer](),
	"EventSource":    reflect.TypeFor[driver.EventSource](),
	"Laner":          reflect.TypeFor[renewal.Laner[driver.Lease]](),
	"Closer":         reflect.TypeFor[io.Closer](),
	"Shutdown":       reflect.TypeFor[shutdowner](),
}

// An interface that is new in package driver must be forwarded, too.
func TestTheListOfOptionalInterfacesIsComplete(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		if file.Name.Name != "driver" {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() || spec.Name.Name == "Store" {
				return true
			}
			if _, ok := spec.Type.(*ast.InterfaceType); ok {
				assert.Contains(t, optional, spec.Name.Name)
			}
			return true
		})
	}
}

func TestAnObservedStoreKeepsAllInterfaces(t *testing.T) {
	quorum, err := quorumstore.New(memstore.New(), memstore.New(), memstore.New())
	require.NoError(t, err)
	for _, store := range []driver.Store{memstore.New(), new(redisstore.Store), quorum, new(completeStore)} {
		observed := driver.Observe(store, ignore)
		require.NotSame(t, store, observed)
		for name, it := range optional {
			if reflect.TypeOf(store).Implements(it) {
				assert.True(t, reflect.TypeOf(observed).Implements(it), "%T: %s", store, name)
			}
		}
	}
	for name, it := range optional {
		assert.True(t, reflect.TypeFor[*completeStore]().Implements(it), name)
	}
	require.NoError(t, quorum.Close())
}

// Each method is called by reflection, so that a method of a new interface cannot be missed.
func TestEachMethodOfAnObservedStoreIsForwarded(t *testing.T) {
	request := driver.Request{Key: "k"}
	one, two := []driver.Lease{{Request: request}}, make([]driver.Lease, 2)
	calls := []struct {
		method string
		args   []any
		op     driver.Op // zero: not observed
	}{
		{"Acquire", []any{request}, driver.Op{Name: "acquire", Key: "k", Count: 1}},
		{"Wait", []any{request, func() {}}, driver.Op{Name: "wait", Key: "k", Count: 1}},
		{"Renew", []any{one, make([]renewal.Outcome, 1)}, driver.Op{Name: "renew", Key: "k", Count: 1}},
		{"Renew", []any{two, make([]renewal.Outcome, 2)}, driver.Op{Name: "renew", Count: 2}},
		{"Release", []any{one[0]}, driver.Op{Name: "release", Key: "k", Count: 1}},
		{"ReleaseAll", []any{one, make([]error, 1)}, driver.Op{Name: "release", Key: "k", Count: 1}},
		{"ReleaseAll", []any{two, make([]error, 2)}, driver.Op{Name: "release", Count: 2}},
		{"ReleaseAll", []any{two[:0], []error{}}, driver.Op{}},
		{"Inspect", []any{"k"}, driver.Op{Name: "inspect", Key: "k", Count: 1}},
		{"ForceRelease", []any{"k"}, driver.Op{Name: "force release", Key: "k", Count: 1}},
		{"List", []any{"p", "cursor"}, driver.Op{Name: "list", Key: "p"}},
		{"SetMetadata", []any{one[0], "m"}, driver.Op{Name: "set metadata", Key: "k", Count: 1}},
		{"Save", []any{one[0], uint64(1), []byte("state"), time.Hour}, driver.Op{Name: "save", Key: "k", Count: 1}},
		{"Forget", []any{"k"}, driver.Op{Name: "forget", Key: "k", Count: 1}},
		{"ReportEvents", []any{func(renewal.Event) {}}, driver.Op{}},
		{"Shutdown", nil, driver.Op{}},
		{"Close", nil, driver.Op{}},
		{"Lane", []any{one[0]}, driver.Op{}},
		{"Export", []any{one[0]}, driver.Op{}},
		{"Import", []any{one[0], []byte("state")}, driver.Op{}},
		{"Resume", []any{one[0]}, driver.Op{Name: "renew", Key: "k", Count: 1}},
		{"Describe", nil, driver.Op{}},
	}
	type span struct{}
	tested := map[string]bool{}
	for _, c := range calls {
		tested[c.method] = true
		var begun []driver.Op
		var ended []error
		store := new(completeStore)
		observed := driver.Observe(store, func(ctx context.Context, op driver.Op) (context.Context, func(error)) {
			begun = append(begun, op)
			return context.WithValue(ctx, span{}, op), func(err error) { ended = append(ended, err) }
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
		if c.op == (driver.Op{}) {
			assert.Empty(t, begun, c.method)
			continue
		}
		assert.Equal(t, []driver.Op{c.op}, begun)
		assert.Equal(t, []error{errComplete}, ended)
		assert.Equal(t, c.op, store.ctx.Value(span{}))
	}
	for name, it := range optional {
		for i := range it.NumMethod() {
			assert.True(t, tested[it.Method(i).Name], "%s.%s", name, it.Method(i).Name)
		}
	}
}

func TestAnObservedStoreLacksWhatTheStoreLacks(t *testing.T) {
	ctx := t.Context()
	s := driver.Observe(struct{ driver.Store }{memstore.New()}, func(_ context.Context, op driver.Op) (context.Context, func(error)) {
		assert.Fail(t, "observed", "%v", op)
		return nil, nil
	})
	_, err := s.(driver.Waiter).Wait(ctx, driver.Request{}, func() {})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorIs(t, s.(driver.BulkReleaser).ReleaseAll(ctx, nil, nil), errors.ErrUnsupported)
	_, err = s.(driver.Inspector).Inspect(ctx, "k")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorIs(t, s.(driver.Inspector).ForceRelease(ctx, "k"), errors.ErrUnsupported)
	_, _, err = s.(driver.Lister).List(ctx, "", "")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorIs(t, s.(driver.MetadataSetter).SetMetadata(ctx, driver.Lease{}, "m"), errors.ErrUnsupported)
	require.ErrorIs(t, s.(driver.Saver).Save(ctx, driver.Lease{}, 1, nil, time.Hour), errors.ErrUnsupported)
	require.ErrorIs(t, s.(driver.Saver).Forget(ctx, "k"), errors.ErrUnsupported)
	_, err = s.(driver.Exporter).Export(driver.Lease{})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = s.(driver.Exporter).Import(driver.Lease{}, nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = s.(driver.Resumer).Resume(ctx, driver.Lease{})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	assert.Zero(t, s.(driver.Describer).Describe())
	assert.Zero(t, s.(renewal.Laner[driver.Lease]).Lane(driver.Lease{}))
	require.NoError(t, s.(io.Closer).Close())
	require.NoError(t, s.(shutdowner).Shutdown(ctx))

	require.Nil(t, driver.Observe(nil, ignore))
	bare := memstore.New()
	assert.Same(t, bare, driver.Observe(bare, nil))
	closed := new(closer)
	require.ErrorIs(t, driver.Observe(closed, ignore).(shutdowner).Shutdown(ctx), io.EOF, "Close instead")
}

func TestTheFirstErrorOfABulkReleaseIsObserved(t *testing.T) {
	var ended []error
	store := memstore.New()
	observed := driver.Observe(store, func(context.Context, driver.Op) (context.Context, func(error)) {
		return nil, func(err error) { ended = append(ended, err) }
	})
	l, err := observed.Acquire(t.Context(), driver.Request{Key: "k", Owner: "o", TTL: time.Minute})
	require.NoError(t, err)
	other := driver.Lease{Request: driver.Request{Key: "other", Owner: "o"}}
	out := make([]error, 2)
	require.NoError(t, observed.(driver.BulkReleaser).ReleaseAll(t.Context(), []driver.Lease{l, other}, out))
	assert.Equal(t, []error{nil, driver.ErrNotHeld}, out)
	assert.Equal(t, []error{nil, driver.ErrNotHeld}, ended)
	require.NoError(t, store.Close())
}

func TestACallThatDoesNotReturnIsObserved(t *testing.T) {
	for _, end := range []func(){func() { panic("oops") }, runtime.Goexit} {
		var ended []error
		s := driver.Observe(&locktest.Faulty{
			Store:  memstore.New(),
			Before: func(context.Context, locktest.Op) error { end(); return nil },
		}, func(ctx context.Context, _ driver.Op) (context.Context, func(error)) {
			return ctx, func(err error) { ended = append(ended, err) }
		})
		over := make(chan struct{})
		go func() {
			defer close(over)
			defer func() { _ = recover() }()
			_, _ = s.Acquire(t.Context(), driver.Request{Key: "k"})
		}()
		<-over
		require.Len(t, ended, 1)
		assert.ErrorContains(t, ended[0], "not returned")
	}
}

func TestContractOfAnObservedStore(t *testing.T) {
	var stores sync.Map // from the observed store to the memstore
	inner := func(s driver.Store) *memstore.Store {
		m, _ := stores.Load(s)
		return m.(*memstore.Store)
	}
	locktest.TestStore(t, locktest.Config{
		New: func(*testing.T) driver.Store {
			m := memstore.New()
			s := driver.Observe(m, ignore)
			stores.Store(s, m)
			return s
		},
		TTL:      30 * time.Second,
		Explains: true,
		Saves:    true,
		Run:      synctest.Test,
		Modes:    locktest.AllModes,
		Inspects: true,
		Lists:    true,
		Waiting:  func(_ *testing.T, s driver.Store, key string) int { return inner(s).Waiting(key) },
		Delete:   func(_ *testing.T, s driver.Store, key string) { inner(s).Delete(key) },
	})
}

// Both functions of an observer call the client, which would block forever if a lock of it
// were held.
func TestObserversMayUseTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards client and ops
		var client *lock.Client
		ops := map[driver.Op]int{}
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
		store := driver.Observe(memstore.New(), func(ctx context.Context, op driver.Op) (context.Context, func(error)) {
			if op.Key == "free" {
				return ctx, nil // a call of use
			}
			mu.Lock()
			ops[op]++
			mu.Unlock()
			use()
			return nil, func(error) { use() }
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
			if op.Name == "renew" {
				renewed += n
			}
		}
		assert.Positive(t, renewed)
		assert.Equal(t, 2, ops[driver.Op{Name: "wait", Key: "a", Count: 1}], "no poll: %v", ops)
		assert.Positive(t, ops[driver.Op{Name: "release", Key: "a", Count: 1}])
		assert.Equal(t, 1, ops[driver.Op{Name: "inspect", Key: "a", Count: 1}])
		assert.Equal(t, 1, ops[driver.Op{Name: "force release", Key: "a", Count: 1}])
	})
}

func ignore(ctx context.Context, _ driver.Op) (context.Context, func(error)) {
	return ctx, func(error) {}
}

var errComplete = errors.New("the error of a complete store")

// completeStore implements all interfaces. It records the last call.
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
func (s *completeStore) Close() error                       { return s.record(context.Background(), "Close") }

func (s *completeStore) ReportEvents(func(renewal.Event)) { s.called = "ReportEvents" }

func (s *completeStore) Lane(driver.Lease) int {
	s.called = "Lane"
	return 7
}

func (s *completeStore) Export(driver.Lease) ([]byte, error) {
	return nil, s.record(context.Background(), "Export")
}

func (s *completeStore) Import(driver.Lease, []byte) (driver.Lease, error) {
	return driver.Lease{}, s.record(context.Background(), "Import")
}

func (s *completeStore) Resume(ctx context.Context, _ driver.Lease) (driver.Lease, error) {
	return driver.Lease{}, s.record(ctx, "Resume")
}

// complete has no zero field.
var complete = driver.Description{
	TTL:       driver.TTLLimits{Step: time.Second},
	Keeps:     driver.ModesOf(driver.Members),
	Saves:     true,
	Unordered: driver.ModesOf(driver.Write),
	Addresses: []string{"host:1"},
	Replicas:  driver.ReplicaStats{Enough: 1, TooFew: 2, Unanswered: 3},
}

func (s *completeStore) Describe() driver.Description {
	s.called = "Describe"
	return complete
}

// closer is a store that has Close and no Shutdown.
type closer struct{ driver.Store }

func (*closer) Close() error { return io.EOF }
