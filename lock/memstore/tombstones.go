package memstore

import (
	"time"
)

// tombstoneTime is how long the store refuses an owner that was released before its
// Acquire was answered.
const tombstoneTime = time.Minute

// tombstones are the owners whose requests are refused. All of them last equally long, so
// the first one added is the first to end.
type tombstones struct {
	ends        table[time.Time] // end of the refusal, by owner
	first, last *tombstoneChunk  // queue in the order of the additions
}

// tombstoneChunk is a part of the queue. The queue grows by chunks, so that nothing is
// copied.
type tombstoneChunk struct {
	owners   [128]string
	ends     [128]time.Time
	from, to int // the range in use
	next     *tombstoneChunk
}

func (t *tombstones) add(owner string, now time.Time) {
	if t.last == nil || t.last.to == len(t.last.owners) {
		c := new(tombstoneChunk)
		if t.last == nil {
			t.first = c
		} else {
			t.last.next = c
		}
		t.last = c
	}
	end := now.Add(tombstoneTime)
	t.last.owners[t.last.to], t.last.ends[t.last.to] = owner, end
	t.last.to++
	t.ends.put(owner, end)
}

func (t *tombstones) has(owner string, now time.Time) bool {
	end, ok := t.ends.get(owner)
	return ok && now.Before(end)
}

// sweep removes a few tombstones that have ended.
func (t *tombstones) sweep(now time.Time) {
	for range sweepBatch {
		c := t.first
		if c == nil || now.Before(c.ends[c.from]) {
			return
		}
		owner := c.owners[c.from]
		c.owners[c.from] = ""
		if c.from++; c.from == c.to {
			if t.first = c.next; t.first == nil {
				t.last = nil
			}
		}
		if end, ok := t.ends.get(owner); ok && !now.Before(end) { // otherwise the owner was added again
			t.ends.remove(owner)
		}
	}
}
