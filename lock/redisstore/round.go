package redisstore

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/renewal"
)

// keysPerScript bounds the leases that one script renews. The server does nothing
// else while a script runs: with 100,000 locks, whose keys it finds cold in memory,
// this one takes about 50 µs, with a few 35 µs. Twice as many keys would save a
// twentieth of the server's time and double that. On a cluster keys lie in slots of
// their own, and no script may touch two.
const keysPerScript = 25

// round is one pipeline of renewals to one node. Sending it may outlive the call of
// Renew, and uses nothing but what is in it, items apart.
type round struct {
	node  *node
	items []item // a part of those of the flight
	args  []any  // of all scripts, one behind the other
	parts []part // the scripts
	err   error  // why nobody waits for the answers
}

// part is one script: for items[from:to], which have one TTL and are all shared, or
// none.
type part struct {
	from, to int
	script   *script
	args     []any
	asking   bool
	permit   *redis.Cmd // if asking
	cmd      *redis.Cmd
	answered bool
}

// rounds are kept for their buffers.
var rounds = sync.Pool{New: func() any { return new(round) }}

// newRound returns a round for items of one node.
func newRound(items []item, most int) *round {
	r := rounds.Get().(*round)
	r.node, r.items, r.err = items[0].node, items, nil
	r.args = slices.Grow(r.args, 8*len(items)) // at most, and then the parts stay where they are
	for from := 0; from < len(items); {
		to := from + 1
		for to < len(items) && to < from+most && items[to].ttl == items[from].ttl && items[to].shared == items[from].shared {
			to++
		}
		if items[from].shared {
			r.addShared(from, to)
		} else {
			r.add(from, to)
		}
		from = to
	}
	return r
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
	r.parts = append(r.parts, part{from: from, to: to, script: renewScript, args: args, asking: r.items[from].asking})
}

// fly sends the scripts and waits for the answers. Those that the server does not
// know, after a restart or a flush, are sent once more, in full.
func (r *round) fly(ctx context.Context, s *Store) {
	if s.cluster != nil {
		defer s.cluster.watch(r.node)()
	}
	_, r.err = await(ctx, s, renewTimeout, func(ctx context.Context) (struct{}, error) {
		if r.send(ctx, (*script).byDigest) {
			r.send(ctx, (*script).inFull)
		}
		return struct{}{}, nil
	})
}

// send sends the parts that have no answer yet, in one pipeline, and reports
// whether the server does not know the script of some of them: those are left
// without an answer again.
func (r *round) send(ctx context.Context, begin func(sc *script, args []any)) (again bool) {
	pipe := r.node.rdb.Pipeline()
	for i := range r.parts {
		p := &r.parts[i]
		if p.answered {
			continue
		}
		if p.asking {
			p.permit = askingCmd(ctx)
			_ = pipe.Process(ctx, p.permit) // which only queues it
		}
		begin(p.script, p.args)
		p.cmd = redis.NewCmd(ctx, p.args...)
		_ = pipe.Process(ctx, p.cmd)
	}
	_, err := pipe.Exec(ctx)
	for i := range r.parts {
		p := &r.parts[i]
		// If the server refuses the connection itself, go-redis returns that error
		// and leaves the commands as if they had none.
		if err != nil && p.cmd.Err() == nil && p.cmd.Val() == nil {
			p.cmd.SetErr(err)
		}
		if p.asking && p.permit.Err() != nil {
			p.cmd.SetErr(p.permit.Err())
		}
		p.answered = !isNoScript(p.cmd.Err())
		again = again || !p.answered
	}
	return again
}

// settle tells the outcomes of the items of the part, or why they are unknown.
func (p *part) settle(items []item, out []renewal.Outcome) error {
	reply, err := p.cmd.Result()
	if err != nil {
		return err
	}
	lost, err := parseLost(reply, len(items))
	if err != nil {
		return err
	}
	for i := range items {
		out[items[i].index] = renewal.Renewed
	}
	for _, index := range lost {
		out[items[index.(int64)-1].index] = renewal.Lost
	}
	return nil
}

// free gives the round back.
func (r *round) free() {
	clear(r.args)
	clear(r.parts)
	r.node, r.items, r.args, r.parts = nil, nil, r.args[:0], r.parts[:0]
	rounds.Put(r)
}
