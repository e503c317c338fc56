package redisconn

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// acks asks how many replicas have confirmed a pipeline of scripts.
//
// WAIT answers for the writes of its own connection, and blocks that connection on the server.
// So it is sent in the same pipeline as the scripts, right after them, and such pipelines have
// connections of their own (Node.acked). Some scripts of a pipeline may write nothing, and the
// server then answers for an earlier write. A script that always writes comes before WAIT
// therefore.
//
// The replication of a server is one stream. A replica that confirms this write has all
// writes before it, on whatever connection they came: also the write of the client that has
// released a lock and so handed it over.
type acks struct {
	keys     []*string // of leases; one that still exists suffices
	replicas int
	timeout  time.Duration // 0: Acknowledge was not called
	touched  []*redis.Cmd
	waited   *redis.Cmd
}

// touchSource writes to a key without changing it.
const touchSource = `local left = redis.call('PTTL', KEYS[1])
if left <= 0 then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], left)`

var (
	errNotTouched = errors.New("the leases have ended before the replicas were asked")
	errNoWait     = errors.New("the replicas were not asked")
)

// Acknowledge makes Send ask how many replicas have confirmed the scripts. The server answers
// when that many have, and at the latest after timeout. The keys are those of leases in the
// batch, and one of them must still exist then. Options.Acks must be set.
func (b *Batch) Acknowledge(keys []*string, replicas int, timeout time.Duration) {
	b.acks = acks{keys: keys, replicas: replicas, timeout: max(timeout, time.Millisecond)} // WAIT 0 has no end
}

// Replicas returns how many replicas have confirmed the scripts of a batch that was sent.
func (b *Batch) Replicas(ctx context.Context) (int, error) {
	a := &b.acks
	if a.waited == nil {
		return 0, errNoWait
	}
	if err := a.waited.Err(); err != nil {
		return 0, b.client.Explain(ctx, time.Time{}, err)
	}
	n, ok := a.waited.Val().(int64)
	if !ok || n < 0 {
		return 0, errNoWait
	}
	err := errNotTouched
	for _, touched := range a.touched {
		switch {
		case touched.Err() != nil:
			err = b.client.Explain(ctx, time.Time{}, touched.Err())
		case touched.Val() == int64(1):
			return int(n), nil
		}
	}
	return 0, err
}

// add adds the write and WAIT to a pipeline.
func (a *acks) add(ctx context.Context, pipe redis.Pipeliner) {
	a.touched = nil
	for _, key := range a.keys {
		touch := redis.NewCmd(ctx, "eval", touchSource, 1, key)
		a.touched = append(a.touched, touch)
		_ = pipe.Process(ctx, touch) // only queues the command
	}
	a.waited = redis.NewCmd(ctx, "wait", a.replicas, a.timeout.Milliseconds())
	_ = pipe.Process(ctx, a.waited)
}
