package k8slock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	k8slock "github.com/leasewheel/leasewheel/contrib/adapter/k8s"
	"github.com/leasewheel/leasewheel/lock"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m)
}

const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	retryAtMost   = retryPeriod * 22 / 10 // client-go adds up to 120 %
)

// term is a time in which a candidate believed that it led.
type term struct {
	name       string
	token      uint64
	start, end time.Time // end is zero while the term lasts
}

// field is all candidates of one election.
type field struct {
	t   *testing.T
	key string

	mu    sync.Mutex // guards terms
	terms []term
}

func newField(t *testing.T) *field {
	return &field{t: t, key: "controller"}
}

// candidate is a process with an elector.
type candidate struct {
	lock    *k8slock.Lock
	elector *leaderelection.LeaderElector
	stop    context.CancelFunc
	ended   chan struct{} // closed when Run has returned
	ctx     context.Context
}

// candidate starts a candidate, which is stopped at the end of the test or bubble. The functions
// may change its config and its context.
func (f *field) candidate(client *lock.Client, name string, change func(*leaderelection.LeaderElectionConfig), watch bool) *candidate {
	return f.run(k8slock.New(client, f.key, name), change, watch)
}

func (f *field) run(l *k8slock.Lock, change func(*leaderelection.LeaderElectionConfig), watch bool) *candidate {
	c := &candidate{lock: l, ended: make(chan struct{})}
	config := leaderelection.LeaderElectionConfig{
		Lock: l, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { f.lead(ctx, l) },
			OnStoppedLeading: func() {},
		},
	}
	if change != nil {
		change(&config)
	}
	var err error
	c.elector, err = leaderelection.NewLeaderElector(config)
	require.NoError(f.t, err)
	c.ctx, c.stop = context.WithCancel(context.Background())
	if watch {
		var release context.CancelFunc
		c.ctx, release = l.Context(c.ctx)
		f.t.Cleanup(release)
	}
	go func() {
		defer close(c.ended)
		c.elector.Run(c.ctx)
	}()
	f.t.Cleanup(func() {
		c.stop()
		<-c.ended
	})
	return c
}

// lead records a term. Nobody else may lead meanwhile.
func (f *field) lead(ctx context.Context, l *k8slock.Lock) {
	f.mu.Lock()
	now := term{name: l.Identity(), token: l.Held().Token(), start: time.Now()}
	for _, other := range f.terms {
		assert.False(f.t, other.end.IsZero(), "%s leads beside %s", now.name, other.name)
		assert.Greater(f.t, now.token, other.token)
	}
	n := len(f.terms)
	f.terms = append(f.terms, now)
	f.mu.Unlock()

	<-ctx.Done()

	f.mu.Lock()
	defer f.mu.Unlock()
	assert.Equal(f.t, now.token, l.Held().Token(), "the term has changed under the work")
	f.terms[n].end = time.Now()
}

// seen returns the terms so far.
func (f *field) seen() []term {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]term(nil), f.terms...)
}

// leader returns the candidate that believes that it leads, "" if none does.
func (f *field) leader() string {
	for _, one := range f.seen() {
		if one.end.IsZero() {
			return one.name
		}
	}
	return ""
}
