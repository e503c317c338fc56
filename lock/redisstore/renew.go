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
	// nothing else while a script runs: with 100,000 locks, whose keys it finds cold
	// in memory, this one takes about 50 µs, with a few 35 µs. Twice as many keys
	// would save a twentieth of the server's time and double that.
	keysPerScript = 25

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
	unknown, err := r.settle(s, out)
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
	items []item // those that can be renewed, in the order of the parts
	args  []any  // of all scripts, one behind the other
	parts []part // the scripts
}

// item is a lease of the round: its index in the batch, its TTL in ms, its texts.
type item struct {
	index int
	ttl   int64
	*state
}

// part is one script: for items[from:to], which have one TTL.
type part struct {
	from, to int
	args     []any
	cmd      *redis.Cmd
	answered bool
}

// rounds are kept for their buffers.
var rounds = sync.Pool{New: func() any { return new(round) }}

// load fills the round from a batch. It leaves out what cannot be renewed, and
// returns the number of those leases and what is wrong with the first.
func (r *round) load(s *Store, batch []lock.Lease) (bad int, first error) {
	mixed := false
	for i := range batch {
		st, err := s.stateOf(&batch[i])
		if err != nil {
			bad++
			first = cmp.Or(first, err)
			continue
		}
		r.items = append(r.items, item{i, batch[i].TTL.Milliseconds(), st})
		mixed = mixed || r.items[0].ttl != r.items[len(r.items)-1].ttl
	}
	if mixed {
		slices.SortStableFunc(r.items, func(a, b item) int { return cmp.Compare(a.ttl, b.ttl) })
	}
	r.args = slices.Grow(r.args, 6*len(r.items)) // at most, and then the parts stay where they are
	for from := 0; from < len(r.items); {
		to := from + 1
		for to < len(r.items) && to < from+keysPerScript && r.items[to].ttl == r.items[from].ttl {
			to++
		}
		r.add(from, to)
		from = to
	}
	return bad, first
}

// add adds the script for items[from:to]: the command and its digest are left
// open, then come the number of keys, the keys, the TTL and the values.
func (r *round) add(from, to int) {
	n := to - from
	start := len(r.args)
	r.args = append(r.args, nil, nil, n)
	r.args = r.args[:start+3+n+1+n]
	args := r.args[start:]
	args[3+n] = r.items[from].ttl
	for k, it := range r.items[from:to] {
		args[3+k], args[3+n+1+k] = &it.key, &it.value
	}
	r.parts = append(r.parts, part{from: from, to: to, args: args})
}

// run sends the scripts. Those that the server does not know, after a restart or
// a flush, are sent once more, in full.
func (r *round) run(ctx context.Context, rdb *redis.Client) {
	if r.send(ctx, rdb, renewScript.byDigest) {
		r.send(ctx, rdb, renewScript.inFull)
	}
}

// send sends the parts that have no answer yet, in one pipeline, and reports
// whether the server does not know the script of some of them: those are left
// without an answer again.
func (r *round) send(ctx context.Context, rdb *redis.Client, begin func(args []any)) (again bool) {
	pipe := rdb.Pipeline()
	for i := range r.parts {
		p := &r.parts[i]
		if p.answered {
			continue
		}
		begin(p.args)
		p.cmd = redis.NewCmd(ctx, p.args...)
		_ = pipe.Process(ctx, p.cmd) // which only queues it
	}
	_, err := pipe.Exec(ctx)
	for i := range r.parts {
		p := &r.parts[i]
		// If the server refuses the connection itself, go-redis returns that error
		// and leaves the commands as if they had none.
		if err != nil && p.cmd.Err() == nil && p.cmd.Val() == nil {
			p.cmd.SetErr(err)
		}
		p.answered = !isNoScript(p.cmd.Err())
		again = again || !p.answered
	}
	return again
}

// settle tells the outcomes, and returns how many are unknown and why the first
// of them is.
func (r *round) settle(s *Store, out []renewal.Outcome) (unknown int, first error) {
	for i := range r.parts {
		p := &r.parts[i]
		items := r.items[p.from:p.to]
		reply, err := p.cmd.Result()
		var lost []any
		if err == nil {
			lost, err = parseLost(reply, len(items))
		}
		if err != nil {
			unknown += len(items)
			if first == nil {
				first = s.clean(err, owners(items)...)
			}
			continue
		}
		for k := range items {
			out[items[k].index] = renewal.Renewed
		}
		for _, index := range lost {
			out[items[index.(int64)-1].index] = renewal.Lost
		}
	}
	return unknown, first
}

func owners(items []item) []string {
	list := make([]string, len(items))
	for k := range items {
		list[k] = items[k].owner
	}
	return list
}

// reset forgets everything but the buffers.
func (r *round) reset() {
	clear(r.items)
	clear(r.args)
	clear(r.parts)
	r.items, r.args, r.parts = r.items[:0], r.args[:0], r.parts[:0]
}
