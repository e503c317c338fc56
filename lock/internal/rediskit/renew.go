// Renew, and what the answers to renewals mean.

package rediskit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/renewal"
)

// ErrElsewhere means that the state of a lease is unknown, because only nodes that do not serve its slot
// answered that the key is missing.
var ErrElsewhere = errors.New("the slot is moving, and neither node had the key")

// Renew renews leases as [renewal.Renewer] requires. A batch is one round trip, or on a
// cluster one to each master. Leases that have moved take more.
//
// The reply to a script is what [ParseDenied] reads.
func Renew[S any](ctx context.Context, p *Plan[S], batch []driver.Lease, out []renewal.Outcome) error {
	r := &renewing[S]{call: newCall(p, false), out: out}
	r.serve(ctx, batch, r)
	r.free()
	switch {
	case r.err == nil:
		return nil
	case len(batch) == 1:
		return basic.Failed(p.Store, "renew", r.err)
	}
	return fmt.Errorf("%s: renew: %d of %d without an answer: %w", p.Store, r.unknown, len(batch), r.err)
}

// RenewOne renews a lease. Its error states why the outcome is unknown.
func RenewOne[S any](ctx context.Context, p *Plan[S], l driver.Lease) (renewal.Outcome, error) {
	var out [1]renewal.Outcome
	err := Renew(ctx, p, []driver.Lease{l}, out[:])
	return out[0], errors.Unwrap(err)
}

// renewing is a call of Renew, and the judge of its answers.
type renewing[S any] struct {
	*call[S]
	out     []renewal.Outcome
	unknown int   // leases without an answer
	err     error // why the first of them has none
}

// fail implements judge. The outcomes stay unknown.
func (r *renewing[S]) fail(items []Item[S], err error) {
	if errors.Is(err, ErrOtherStore) {
		r.lose(&items[0], renewal.LostTaken)
		return
	}
	r.unknown += len(items)
	if r.err == nil {
		r.err = err
	}
}

// redirected implements judge. The router follows redirections.
func (r *renewing[S]) redirected(*Item[S]) bool { return false }

// lose sets the outcome of a lease that is lost.
func (r *renewing[S]) lose(it *Item[S], lost renewal.Outcome) {
	if r.plan.Unexplained {
		lost = renewal.Lost
	}
	r.out[it.index] = lost
}

// answered implements judge. short states why the replicas do not suffice, if they do not.
func (r *renewing[S]) answered(items []Item[S], reply any, short error, again []Item[S]) ([]Item[S], error) {
	most := len(items)
	if items[0].Yields {
		most *= 2
	}
	denied, err := ParseDenied(reply, most)
	if err != nil {
		return again, err
	}
	for last := len(denied) - 1; last >= 0; last = len(denied) - 1 {
		i := denied[last].(int64)
		if i <= int64(len(items)) && -i <= int64(len(items)) {
			break
		}
		if i < 0 {
			return again, UnexpectedReply(reply)
		}
		r.plan.Wanted(&items[i-1-int64(len(items))])
		denied = denied[:last]
	}
	node, renewed := items[0].node, false
	for i := range items {
		it := &items[i]
		var lost renewal.Outcome
		if len(denied) > 0 {
			switch denied[0].(int64) {
			case int64(i + 1):
				lost = renewal.LostMissing
			case -int64(i + 1):
				lost = renewal.LostTaken
			}
		}
		gone := lost.IsLost()
		if gone {
			denied = denied[1:]
		}
		switch {
		case gone && it.asking:
			// The node does not serve the slot yet. The key may still have been on the master when this
			// node executed the script, or may have returned there.
			if it.hops >= redisconn.MaxRedirects-1 { // the next redirection would exceed the limit
				r.fail(items[i:i+1], ErrElsewhere)
				continue
			}
			it.node, it.asking, it.hops = nil, false, it.hops+1
			again = append(again, *it)
		case gone && !it.Minor:
			r.lose(it, lost)
		case it.Step > 0 && r.next(it):
			again = append(again, *it)
		case short != nil:
			r.fail(items[i:i+1], short)
		default:
			r.out[it.index], renewed = renewal.Renewed, true
		}
	}
	if renewed {
		node.Hold(time.Duration(items[0].TTL) * time.Millisecond)
	}
	return again, nil
}

// ParseDenied reads the reply of a script that renews n leases: indexes from 1 to n in rising order. A
// negative one means that another owner has the lock.
func ParseDenied(reply any, n int) ([]any, error) {
	denied, ok := reply.([]any)
	if !ok || len(denied) > n {
		return nil, UnexpectedReply(reply)
	}
	var last int64
	for _, item := range denied {
		index, ok := item.(int64)
		if index < 0 && index >= -int64(n) {
			index = -index
		}
		if !ok || index <= last || index > int64(n) {
			return nil, UnexpectedReply(reply)
		}
		last = index
	}
	return denied, nil
}
