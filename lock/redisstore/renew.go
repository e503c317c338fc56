package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

const (
	// keysPerScript bounds the leases that one script renews. The server does
	// nothing else while a script runs: this one takes about 25 µs. Twice as many
	// save a tenth of the server's time and double that.
	keysPerScript = 32

	// renewTimeout bounds a renewal whose ctx would allow more. A server that has
	// not answered by then will not.
	renewTimeout = 30 * time.Second
)

// Renew implements [renewal.Renewer]. The batch is one round trip.
func (s *Store) Renew(ctx context.Context, batch []lock.Lease, out []renewal.Outcome) error {
	if len(batch) == 0 {
		return nil
	}
	r := rounds.Get().(*round)
	bad, errBad := r.load(s, batch)
	if len(r.parts) > 0 {
		_, err := await(ctx, s, renewTimeout, func(ctx context.Context) (struct{}, error) {
			r.run(ctx, s.rdb)
			return struct{}{}, nil
		})
		if err != nil {
			return notRenewed(batch, len(batch), err) // and r may still be at work
		}
	}
	unknown, err := r.settle(s, batch, out)
	r.reset()
	rounds.Put(r)
	if err != nil {
		return notRenewed(batch, unknown+bad, s.reason(ctx, err))
	}
	if errBad != nil {
		return notRenewed(batch, bad, errBad)
	}
	return nil
}

// notRenewed says that n leases of the batch are unknown.
func notRenewed(batch []lock.Lease, n int, err error) error {
	if len(batch) == 1 {
		return failed("renew", batch[0].Key, err)
	}
	return fmt.Errorf("redisstore: renew %s and others, %d of %d without an answer: %w", quoted(batch[0].Key), n, len(batch), err)
}

// round is one call of Renew. It has a copy of all that it sends, because it may
// outlive the call.
type round struct {
	order []int   // indexes of the batch in the order of the parts
	args  []any   // of all scripts, one behind the other
	parts []*part // the scripts
}

// part is one script: for the leases order[from:to], which have one TTL.
type part struct {
	from, to int
	args     []any
	cmd      *redis.Cmd
}

// rounds are kept for their buffers.
var rounds = sync.Pool{New: func() any { return new(round) }}

// load fills the round from a batch. It leaves out what cannot be renewed, and
// returns the number of those leases and what is wrong with the first.
func (r *round) load(s *Store, batch []lock.Lease) (bad int, first error) {
	mixed := false
	for i := range batch {
		if err := check(batch[i].Request); err != nil {
			bad++
			first = cmp.Or(first, err)
			continue
		}
		r.order = append(r.order, i)
		mixed = mixed || ttl(batch, i) != ttl(batch, r.order[0])
	}
	if mixed {
		slices.SortStableFunc(r.order, func(i, j int) int { return cmp.Compare(ttl(batch, i), ttl(batch, j)) })
	}
	r.args = slices.Grow(r.args, 6*len(r.order)) // at most, and then the parts stay where they are
	for from := 0; from < len(r.order); {
		to := from + 1
		for to < len(r.order) && to < from+keysPerScript && ttl(batch, r.order[to]) == ttl(batch, r.order[from]) {
			to++
		}
		r.add(s, batch, from, to)
		from = to
	}
	return bad, first
}

func ttl(batch []lock.Lease, i int) int64 { return batch[i].TTL.Milliseconds() }

// add adds the script for order[from:to]: the command and its digest are left
// open, then come the number of keys, the keys, the TTL and the values.
func (r *round) add(s *Store, batch []lock.Lease, from, to int) {
	n := to - from
	start := len(r.args)
	r.args = append(r.args, nil, nil, n)
	r.args = r.args[:start+3+n+1+n]
	args := r.args[start:]
	args[3+n] = ttl(batch, r.order[from])
	for k, i := range r.order[from:to] {
		st := s.stateOf(&batch[i])
		args[3+k], args[3+n+1+k] = &st.key, &st.value
	}
	r.parts = append(r.parts, &part{from: from, to: to, args: args})
}

// run sends the scripts. Those that the server does not know, after a restart or
// a flush, are sent once more, in full.
func (r *round) run(ctx context.Context, rdb *redis.Client) {
	if unknown := send(ctx, rdb, r.parts, renewScript.byDigest); len(unknown) > 0 {
		send(ctx, rdb, unknown, renewScript.inFull)
	}
}

// send sends parts in one pipeline, and returns those whose script the server
// does not know.
func send(ctx context.Context, rdb *redis.Client, parts []*part, begin func(args []any)) (unknown []*part) {
	pipe := rdb.Pipeline()
	for _, p := range parts {
		begin(p.args)
		p.cmd = redis.NewCmd(ctx, p.args...)
		_ = pipe.Process(ctx, p.cmd) // which only queues it
	}
	_, err := pipe.Exec(ctx)
	for _, p := range parts {
		// If the server refuses the connection itself, go-redis returns that error
		// and leaves the commands as if they had none.
		if err != nil && p.cmd.Err() == nil && p.cmd.Val() == nil {
			p.cmd.SetErr(err)
		}
		if isNoScript(p.cmd.Err()) {
			unknown = append(unknown, p)
		}
	}
	return unknown
}

// settle tells the outcomes, and returns how many are unknown and why the first
// of them is.
func (r *round) settle(s *Store, batch []lock.Lease, out []renewal.Outcome) (unknown int, first error) {
	for _, p := range r.parts {
		indexes := r.order[p.from:p.to]
		reply, err := p.cmd.Result()
		var lost []any
		if err == nil {
			lost, err = parseLost(reply, len(indexes))
		}
		if err != nil {
			unknown += len(indexes)
			if first == nil {
				first = s.clean(err, owners(batch, indexes)...)
			}
			continue
		}
		for _, i := range indexes {
			out[i] = renewal.Renewed
		}
		for _, index := range lost {
			out[indexes[index.(int64)-1]] = renewal.Lost
		}
	}
	return unknown, first
}

func owners(batch []lock.Lease, indexes []int) []string {
	list := make([]string, len(indexes))
	for k, i := range indexes {
		list[k] = batch[i].Owner
	}
	return list
}

// reset forgets everything but the buffers.
func (r *round) reset() {
	clear(r.args)
	clear(r.parts)
	r.order, r.args, r.parts = r.order[:0], r.args[:0], r.parts[:0]
}
