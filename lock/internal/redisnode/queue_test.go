package redisnode

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

// gatedWire is a server that replies OK to each request when its gate is open.
type gatedWire struct {
	testredis.Wire
	mu    sync.Mutex    // guards all below
	gate  chan struct{} // closed when the gate opens; nil if there is no gate
	drops bool          // the server closes connections instead of replying
}

func newGatedWire() *gatedWire {
	w := new(gatedWire)
	w.Answer = func([]string) string {
		if gate := w.currentGate(); gate != nil {
			<-gate
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.drops {
			return ""
		}
		return "+OK\r\n"
	}
	return w
}

func (w *gatedWire) currentGate() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gate
}

// closeGate makes later requests wait until open is called. removeGate lets requests pass
// that arrive afterwards.
func (w *gatedWire) closeGate() (open func()) {
	gate := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = gate
	return func() {
		w.removeGate()
		close(gate)
	}
}

func (w *gatedWire) removeGate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = nil
}

func (w *gatedWire) dropConns(drop bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drops = drop
}

// pipelineCounter counts the pipelines of a queue, the calls in them, and the direct calls.
type pipelineCounter struct{ pipelines, calls, direct atomic.Int64 }

func (p *pipelineCounter) attach(n *Node) {
	for _, l := range n.all {
		l.rdb.AddHook(p)
	}
}

func (*pipelineCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *pipelineCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.direct.Add(1)
		return next(ctx, cmd)
	}
}

func (p *pipelineCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		p.pipelines.Add(1)
		p.calls.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// take waits for a lane.
func (q *queue) take(ctx context.Context, until time.Time) (*lane, error) {
	l, a := q.enter(ctx, until, call{}, true)
	return l, a.Err
}

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

func TestTheQueueSendsFewCallsDirectlyAndQueuesTheRest(t *testing.T) {
	for _, direct := range []int{1, scriptLanes} {
		const n = 40
		w := newGatedWire()
		c := newClient(t, w.Client(t, redis.Options{}), Options{Timeout: long, PoolSize: direct})
		require.NoError(t, runEcho(t.Context(), c, "first"))
		var counter pipelineCounter
		counter.attach(c.node)
		open := w.closeGate()
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				err := runEcho(t.Context(), c, fmt.Sprint(i))
				assert.NoError(t, err)
			})
		}
		assert.Eventually(t, func() bool { return c.node.scripts.length() == n-direct && w.Evals.Load() == int64(1+direct) }, soon, time.Millisecond,
			"the first calls are sent directly, the others are queued")
		open()
		wg.Wait()
		assert.EqualValues(t, 1, counter.pipelines.Load())
		assert.EqualValues(t, n-direct, counter.calls.Load())
		assert.EqualValues(t, n+1, w.Evals.Load(), "each call is sent once")
	}
}

func TestTheQueueSendsSequentialCallsDirectly(t *testing.T) {
	c := newClient(t, shared.Server(t).Client(t), Options{})
	require.NoError(t, runEcho(t.Context(), c, "first"))
	var counter pipelineCounter
	counter.attach(c.node)
	for range 5 {
		require.NoError(t, runEcho(t.Context(), c, "k"))
	}
	assert.EqualValues(t, 5, counter.direct.Load())
	assert.Zero(t, counter.pipelines.Load())
}

func TestACancelledCallDoesNotFailOthers(t *testing.T) {
	const n = 20
	w := newGatedWire()
	c := newClient(t, w.Client(t, redis.Options{}), Options{Timeout: long, PoolSize: 1})
	require.NoError(t, runEcho(t.Context(), c, "first"))
	open := w.closeGate()
	cause := errors.New("cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	var cancelled atomic.Int64
	for i := range 2 * n {
		wg.Go(func() {
			if i%2 == 0 {
				err := runEcho(t.Context(), c, fmt.Sprint(i))
				assert.NoError(t, err)
				return
			}
			err := runEcho(ctx, c, fmt.Sprint(i))
			assert.ErrorIs(t, err, cause)
			cancelled.Add(1)
		})
		if i == 0 { // a direct call, which waits for its reply
			require.Eventually(t, func() bool { return w.Evals.Load() == 2 }, soon, time.Millisecond)
		}
	}
	require.Eventually(t, func() bool { return c.node.scripts.length() == 2*n-1 }, soon, time.Millisecond)
	cancel(cause)
	require.Eventually(t, func() bool { return cancelled.Load() == n }, soon, time.Millisecond, "before the gate opens")
	open()
	wg.Wait()
	assert.EqualValues(t, 1+n, w.Evals.Load(), "cancelled calls are not sent")
}

func TestAClosedConnectionFailsItsCalls(t *testing.T) {
	const n = 10
	w := newGatedWire()
	c := newClient(t, w.Client(t, redis.Options{}), Options{Timeout: long, PoolSize: 1})
	require.NoError(t, runEcho(t.Context(), c, "first"))
	open := w.closeGate()
	var failed atomic.Int64
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := runEcho(t.Context(), c, fmt.Sprint(i)); err != nil {
				failed.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return c.node.scripts.length() == n-1 }, soon, time.Millisecond)
	w.dropConns(true)
	open()
	wg.Wait()
	assert.EqualValues(t, n, failed.Load())
	assert.LessOrEqual(t, w.Evals.Load(), int64(1+2), "nothing is sent again")
	w.dropConns(false)
	require.NoError(t, runEcho(t.Context(), c, "k"))
}

func TestTheQueueSendsUnknownScripts(t *testing.T) {
	const n = 50
	srv := testredis.Start(t)
	rdb := srv.Client(t)
	c := newClient(t, rdb, Options{})
	for range 3 {
		var wg sync.WaitGroup
		require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		for i := range n {
			wg.Go(func() {
				assert.NoError(t, runEcho(t.Context(), c, fmt.Sprint(i)))
			})
		}
		wg.Wait()
	}
}

func TestAPipelineHasAtMostMaxPipelineCalls(t *testing.T) {
	const n = 3 * maxPipelineCalls
	w := newGatedWire()
	c := newClient(t, w.Client(t, redis.Options{}), Options{Timeout: long, PoolSize: 1})
	require.NoError(t, runEcho(t.Context(), c, "first"))
	var counter pipelineCounter
	counter.attach(c.node)
	open := w.closeGate()
	var wg sync.WaitGroup
	for i := range n + 1 {
		wg.Go(func() {
			err := runEcho(t.Context(), c, fmt.Sprint(i))
			assert.NoError(t, err)
		})
	}
	require.Eventually(t, func() bool { return c.node.scripts.length() == n }, soon, time.Millisecond)
	open()
	wg.Wait()
	assert.EqualValues(t, 3, counter.pipelines.Load())
}

// Releases of many leases and commands that hang delay no renewal.
func TestARenewalWaitsForNothingElse(t *testing.T) {
	hang := make(chan struct{})
	var hanging atomic.Int64
	w := &testredis.Wire{Answer: func(command []string) string {
		if command[len(command)-1] == "slow" {
			hanging.Add(1)
			<-hang
		}
		return "+OK\r\n"
	}}
	c := newClient(t, w.Client(t, redis.Options{}), Options{})
	var calls sync.WaitGroup
	for range otherLanes + scriptLanes + 1 {
		calls.Go(func() {
			slow, b := "slow", Batch{MayWait: true}
			args := b.Add(echo, 4)
			args[2], args[3] = 1, &slow
			assert.NoError(t, c.send(t.Context(), &b))
		})
		calls.Go(func() { assert.NoError(t, runEcho(t.Context(), c, "slow")) })
	}
	require.Eventually(t, func() bool { return hanging.Load() == otherLanes+scriptLanes }, soon, time.Millisecond)
	for range 3 {
		require.NoError(t, sendBatch(t.Context(), c, "k", 1))
	}
	close(hang)
	calls.Wait()
}
