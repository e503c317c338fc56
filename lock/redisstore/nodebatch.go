package redisstore

import (
	"context"
	"sync"

	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// keysPerScript bounds the leases that one script renews. The server executes nothing else
// while a script runs. A script with 25 keys takes about 35 µs if there are few locks, and
// about 50 µs if there are 100,000, because their keys are not in the caches. Twice as many
// keys would save 5% of the server's time and double that delay. On a cluster a script
// renews one lease, because it must not touch two slots.
const keysPerScript = 25

// nodeBatch is one pipeline of renewals to one node. Its sending may outlive the call of
// Renew. It then uses only the nodeBatch, without items.
type nodeBatch struct {
	store *Store
	items []leaseRef // a part of renewCall.items
	batch redisconn.Batch
	parts []scriptCall // the scripts of the batch
	err   error        // why there are no answers
}

// scriptCall is one script for items[from:to]. These have the same TTL, and either all or
// none of them are shared.
type scriptCall struct {
	from, to int
}

// nodeBatches keeps the buffers of earlier batches.
var nodeBatches = sync.Pool{New: func() any { return new(nodeBatch) }}

// newNodeBatch returns a nodeBatch for items that are all on one node.
func newNodeBatch(s *Store, items []leaseRef) *nodeBatch {
	r := nodeBatches.Get().(*nodeBatch)
	r.store, r.items, r.err = s, items, nil
	r.batch.Begin(s.redis, items[0].node, 8*len(items)) // an upper bound of the arguments
	for from := 0; from < len(items); {
		to := from + 1
		for to < len(items) && to < from+s.keysPerScript && !items[from].alone && items[to].ttl == items[from].ttl && items[to].shared == items[from].shared {
			to++
		}
		switch {
		case items[from].step != stepAll:
			r.addStep(from)
		case items[from].shared:
			r.addShared(from, to)
		default:
			r.add(from, to)
		}
		from = to
	}
	return r
}

// add adds the script for items[from:to]. The first two arguments, the command and the
// digest, are set later. The others are the number of keys, the keys, the TTL and the
// values.
func (r *nodeBatch) add(from, to int) {
	n := to - from
	args := r.batch.Add(renewScript, 3+n+1+n, r.items[from].asking)
	args[2], args[3+n] = n, r.items[from].ttl
	for k, it := range r.items[from:to] {
		args[3+k], args[3+n+1+k] = &it.key, &it.value
	}
	r.parts = append(r.parts, scriptCall{from, to})
}

// send sends the scripts and waits for the answers.
func (r *nodeBatch) send(ctx context.Context) { r.err = rediskit.FromConn(r.batch.Send(ctx)) }

// lost returns the indexes, from 1, of the items of script i that are not held. It returns
// an error if their state is unknown.
func (r *nodeBatch) lost(i int) ([]any, error) {
	reply, err := r.batch.Reply(i)
	if err != nil {
		return nil, err
	}
	lost, err := parseDenied(reply, r.parts[i].to-r.parts[i].from)
	if err != nil {
		r.store.redis.Suspect(r.batch.Node())
	}
	return lost, err
}

// free returns the nodeBatch to the pool.
func (r *nodeBatch) free() {
	r.batch.Reset()
	r.items, r.parts = nil, r.parts[:0]
	nodeBatches.Put(r)
}
