package check

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/leasewheel/leasewheel/contrib/adapter/internal/adaptertest"
	k8slock "github.com/leasewheel/leasewheel/contrib/adapter/k8s"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what happens in real time.
const patience = 25 * time.Second

// controller is a process with a manager. A manager without controllers asks the API server nothing.
type controller struct {
	election *k8slock.Lock
	leads    atomic.Bool
	stop     context.CancelFunc
	ended    chan error // has the error of Start and the cause of its ctx
}

func start(t *testing.T, client *lock.Client, pod string) *controller {
	api := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(api.Close)
	c := &controller{election: k8slock.New(client, "my-controller", pod), ended: make(chan error, 1)}
	deadline, retry := 10*time.Second, 50*time.Millisecond
	lease := 15 * time.Second
	m, err := ctrl.NewManager(&rest.Config{Host: api.URL}, ctrl.Options{
		LeaderElection:                      true,
		LeaderElectionResourceLockInterface: c.election,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       &lease,
		RenewDeadline:                       &deadline,
		RetryPeriod:                         &retry,
		Metrics:                             server.Options{BindAddress: "0"},
	})
	require.NoError(t, err)
	require.NoError(t, m.Add(manager.RunnableFunc(func(ctx context.Context) error {
		c.leads.Store(true)
		defer c.leads.Store(false)
		<-ctx.Done()
		return nil
	})))
	var ctx context.Context
	ctx, c.stop = context.WithCancel(context.Background())
	watched, cancel := c.election.Context(ctx)
	go func() {
		defer cancel()
		c.ended <- errors.Join(m.Start(watched), context.Cause(watched))
	}()
	t.Cleanup(c.stop)
	return c
}

func (c *controller) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-c.ended:
		return err
	case <-time.After(patience):
		require.FailNow(t, "Start has not returned")
		return nil
	}
}

func TestManager(t *testing.T) {
	store := memstore.New()
	a := start(t, adaptertest.NewClient(t, adaptertest.Process{Store: store}), "a")
	require.Eventually(t, a.leads.Load, patience, time.Millisecond)
	b := start(t, adaptertest.NewClient(t, adaptertest.Process{Store: store}), "b")
	c := start(t, adaptertest.NewClient(t, adaptertest.Process{Store: store}), "c")
	assert.False(t, b.leads.Load() || c.leads.Load())

	a.stop() // as at a SIGTERM
	assert.ErrorIs(t, a.end(t), context.Canceled)
	require.Eventually(t, func() bool { return b.leads.Load() || c.leads.Load() }, patience, time.Millisecond)
	if c.leads.Load() {
		b, c = c, b
	}
	assert.Greater(t, b.election.Held().Token(), a.election.Held().Token())

	store.Delete("my-controller") // as an operator might
	assert.ErrorIs(t, b.end(t), lock.ErrLost)
	require.Eventually(t, c.leads.Load, patience, time.Millisecond)
	assert.Greater(t, c.election.Held().Token(), b.election.Held().Token())
	c.stop()
	assert.ErrorIs(t, c.end(t), context.Canceled)
}

// TestElector loses a leadership and resigns another one with the client-go of this module.
func TestElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := k8slock.New(adaptertest.NewClient(t, adaptertest.Process{Store: store}), "my-controller", "a")
		var tokens []uint64
		run := func(during func(stop context.CancelFunc)) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: l, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) {
						tokens = append(tokens, l.Held().Token())
						time.Sleep(time.Minute)
						during(stop)
					},
					OnStoppedLeading: func() {},
				},
			})
		}
		run(func(context.CancelFunc) { store.Delete("my-controller") })
		assert.ErrorIs(t, l.Held().Err(), lock.ErrLost)
		assert.Zero(t, store.Len(), "the elector has not locked again")
		run(func(stop context.CancelFunc) { stop() })
		assert.Zero(t, store.Len())
		require.Len(t, tokens, 2)
		assert.Greater(t, tokens[1], tokens[0])
	})
}
