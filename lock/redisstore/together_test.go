package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// gatedWire is a server that grants what it is asked for, but not before its gate is
// open.
type gatedWire struct {
	wire
	mu   sync.Mutex // guards all below
	gate chan struct{}
	cut  bool // the connections that come through the gate
}

func newGatedWire() *gatedWire {
	w := new(gatedWire)
	w.answer = func([]string) string {
		if gate := w.now(); gate != nil {
			<-gate
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.cut {
			return ""
		}
		return "*2\r\n:1\r\n$2\r\n17\r\n"
	}
	return w
}

func (w *gatedWire) now() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gate
}

// shut returns what opens the gate for those that stand before it. Those that come
// after lift find none.
func (w *gatedWire) shut() (open func()) {
	gate := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = gate
	return func() {
		w.lift()
		close(gate)
	}
}

func (w *gatedWire) lift() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = nil
}

func (w *gatedWire) cutAll(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

// pipelines counts the pipelines of a desk and what is in them, and the calls that
// are made alone.
type pipelines struct{ sent, errands, alone atomic.Int64 }

func (p *pipelines) count(d *desk) {
	d.together.AddHook(p)
	for _, solo := range d.soloists {
		solo.rdb.AddHook(p)
	}
}

func (*pipelines) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.alone.Add(1)
		return next(ctx, cmd)
	}
}

func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		p.sent.Add(1)
		p.errands.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

func (d *desk) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting)
}

func TestFewGoAloneAndWhatIsAskedForMeanwhileIsSentTogether(t *testing.T) {
	for _, alone := range []int{1, few} {
		const n = 40
		w := newGatedWire()
		s := newStore(t, w.client(t, redis.Options{}), &Options{Timeout: long, PoolSize: alone})
		acquire(t, s, request("first"))
		acquire(t, s, request("second")) // alone: now there is a connection for that too
		var counted pipelines
		counted.count(s.one.desk)
		open := w.shut()
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				_, err := s.Acquire(t.Context(), request(fmt.Sprint(i)))
				assert.NoError(t, err)
			})
		}
		assert.Eventually(t, func() bool { return s.one.desk.len() == n-alone && w.evals.Load() == int64(2+alone) }, soon, time.Millisecond,
			"those that found little under way are with the server, the others wait")
		open()
		wg.Wait()
		assert.EqualValues(t, 1, counted.sent.Load())
		assert.EqualValues(t, n-alone, counted.errands.Load())
		assert.EqualValues(t, n+2, w.evals.Load(), "each is sent once")
	}
}

func TestOneAfterAnotherGoesAlone(t *testing.T) {
	s, _ := sharedStore(t)
	acquire(t, s, request("first"))
	require.NoError(t, s.Release(t.Context(), acquire(t, s, request("second")))) // now there is a connection for it
	var counted pipelines
	counted.count(s.one.desk)
	for range 5 {
		require.NoError(t, s.Release(t.Context(), acquire(t, s, request("k"))))
	}
	assert.EqualValues(t, 10, counted.alone.Load())
	assert.Zero(t, counted.sent.Load())
}

func TestAPipelineThatHangsHoldsUpNobodyForLong(t *testing.T) {
	w := newGatedWire()
	s := newStore(t, w.client(t, redis.Options{}), &Options{Timeout: long})
	acquire(t, s, request("first"))
	open := w.shut()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range few + abreast { // few alone and the others in pipelines
		wg.Go(func() {
			_, err := s.Acquire(ctx, request(fmt.Sprint(i)))
			assert.ErrorIs(t, err, context.Canceled)
		})
		require.Eventually(t, func() bool { return w.evals.Load() == int64(i+2) }, soon, time.Millisecond)
	}
	w.lift()
	within(t, 0, soon, func() { acquire(t, s, request("k")) })
	cancel()
	wg.Wait()
	open()
}

func TestACallerThatGoesFailsNobodyElse(t *testing.T) {
	const n = 20
	w := newGatedWire()
	s := newStore(t, w.client(t, redis.Options{}), &Options{Timeout: long, PoolSize: 1})
	acquire(t, s, request("first"))
	open := w.shut()
	cause := errors.New("gone")
	ctx, leave := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	var left atomic.Int64
	for i := range 2 * n {
		wg.Go(func() {
			if i%2 == 0 {
				_, err := s.Acquire(t.Context(), request(fmt.Sprint(i)))
				assert.NoError(t, err)
				return
			}
			_, err := s.Acquire(ctx, request(fmt.Sprint(i)))
			assert.ErrorIs(t, err, cause)
			left.Add(1)
		})
		if i == 0 { // is alone, and waits for its answer
			require.Eventually(t, func() bool { return w.evals.Load() == 2 }, soon, time.Millisecond)
		}
	}
	require.Eventually(t, func() bool { return s.one.desk.len() == 2*n-1 }, soon, time.Millisecond)
	leave(cause)
	require.Eventually(t, func() bool { return left.Load() == n }, soon, time.Millisecond, "at once")
	open()
	wg.Wait()
	assert.EqualValues(t, 1+n, w.evals.Load(), "what nobody waits for is not sent")
}

func TestACutConnectionFailsWhatItCarried(t *testing.T) {
	const n = 10
	w := newGatedWire()
	s := newStore(t, w.client(t, redis.Options{}), &Options{Timeout: long, PoolSize: 1})
	acquire(t, s, request("first"))
	open := w.shut()
	var failed atomic.Int64
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if _, err := s.Acquire(t.Context(), request(fmt.Sprint(i))); err != nil {
				failed.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return s.one.desk.len() == n-1 }, soon, time.Millisecond)
	w.cutAll(true)
	open()
	wg.Wait()
	assert.EqualValues(t, n, failed.Load())
	assert.LessOrEqual(t, w.evals.Load(), int64(1+2), "nothing is sent again")
	w.cutAll(false)
	acquire(t, s, request("k"))
}

func TestAPipelineOfUnknownScripts(t *testing.T) {
	const n = 50
	srv := testredis.Start(t)
	rdb := srv.Client(t)
	s := newStore(t, rdb, nil)
	for range 3 {
		var wg sync.WaitGroup
		require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		for i := range n {
			wg.Go(func() {
				l, err := s.Acquire(t.Context(), request(fmt.Sprint(i)))
				if assert.NoError(t, err) {
					assert.NoError(t, s.Release(t.Context(), l))
				}
			})
		}
		wg.Wait()
	}
}

func TestAPipelineIsBounded(t *testing.T) {
	const n = 3 * pipelineMost
	w := newGatedWire()
	s := newStore(t, w.client(t, redis.Options{}), &Options{Timeout: long, PoolSize: 1})
	acquire(t, s, request("first"))
	acquire(t, s, request("second")) // alone: now there is a connection for that too
	var counted pipelines
	counted.count(s.one.desk)
	open := w.shut()
	var wg sync.WaitGroup
	for i := range n + 1 {
		wg.Go(func() {
			_, err := s.Acquire(t.Context(), request(fmt.Sprint(i)))
			assert.NoError(t, err)
		})
	}
	require.Eventually(t, func() bool { return s.one.desk.len() == n }, soon, time.Millisecond)
	open()
	wg.Wait()
	assert.EqualValues(t, 3, counted.sent.Load())
}
