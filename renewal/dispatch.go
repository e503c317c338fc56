package renewal

import (
	"context"
	"errors"
	"time"
)

// gather is how long a new worker waits for company before it takes what is due. The
// renewals of one instant of the grid come from the engine one by one. Without the
// wait they left in several small batches, each of which wakes this process and the
// server anew, and their workers contended with the engine for mu.
const gather = 2 * time.Millisecond

// gatherOf is gather for leases with that period. Their renewals are due so much
// earlier.
func gatherOf(period time.Duration) time.Duration { return min(gather, period/16) }

// enqueue puts an entry that is due in its lane and sees to a worker. The caller
// holds mu.
func (w *Watchdog[L]) enqueue(e *Entry[L], now instant) {
	id := 0
	if w.laner != nil {
		id = w.laner.Lane(e.lease)
	}
	l := w.lanes[id]
	if l == nil {
		l = &lane[L]{id: id}
		w.lanes[id] = l
	}
	e.state = due
	l.enqueue(e, e.patience(now))
	w.hire(l, gatherOf(e.period))
}

// hire starts a worker for what is due unless one is about to take it, or none is
// allowed any more: then those at work go on with it. The caller holds mu.
func (w *Watchdog[L]) hire(l *lane[L], wait time.Duration) {
	if l.gathering || l.workers == w.opts.InFlight {
		return
	}
	l.gathering = true
	l.workers++
	w.workers++
	go w.work(l, wait)
}

// batch is the memory of one worker.
type batch[L any] struct {
	entries  []*Entry[L]
	leases   []L
	outcomes []Outcome
	sent     instant
	late     time.Duration // of the entry that waited longest
	patience time.Duration // the longest
	deadline instant       // the latest
}

// work is a worker: it renews batches until nothing is due.
func (w *Watchdog[L]) work(l *lane[L], wait time.Duration) {
	time.Sleep(wait)
	w.mu.Lock()
	defer w.mu.Unlock()
	l.gathering = false
	b := w.buffers()
	defer w.leave(l, b) // also after a Renew that calls runtime.Goexit
	for w.take(l, b) {
		if l.next() != nil {
			w.hire(l, 0)
		}
		w.renew(l, b)
	}
}

// leave ends a worker. The caller holds mu.
func (w *Watchdog[L]) leave(l *lane[L], b *batch[L]) {
	w.spare = append(w.spare, b)
	l.workers--
	w.workers--
	switch {
	case l.next() != nil: // this one did not end by itself
		w.hire(l, 0)
	case l.workers == 0:
		delete(w.lanes, l.id)
	}
	if w.workers == 0 && w.closed {
		close(w.quiet)
	}
}

// take moves up to a batch of due leases into b. The instant of sending is read
// here, before the request: what is confirmed is counted from it.
func (w *Watchdog[L]) take(l *lane[L], b *batch[L]) bool {
	b.entries, b.leases = b.entries[:0], b.leases[:0]
	b.sent = w.clock.now()
	b.late, b.patience, b.deadline = 0, 0, instant{ended, ended}
	for q := l.next(); q != nil && len(b.entries) == 0; q = l.next() {
		w.takeFrom(q, b)
	}
	return len(b.entries) > 0
}

// takeFrom is take for one queue.
func (w *Watchdog[L]) takeFrom(q *queue[L], b *batch[L]) {
	for e := q.head(); e != nil && len(b.entries) < w.opts.MaxBatch; e = q.head() {
		if !e.taken(b.sent) { // it has left the list
			continue
		}
		e.list.remove(e)
		b.entries = append(b.entries, e)
		b.leases = append(b.leases, e.lease)
		late := max(time.Duration(b.sent.mono-e.at)-gatherOf(e.period), 0)
		w.stats.Late.add(late)
		b.late = max(b.late, late)
		b.patience = max(b.patience, e.patience(b.sent))
		if d := e.deadline(); d.mono > b.deadline.mono {
			b.deadline = d
		}
	}
}

// errExited is what a call of Renew has come to that did not return.
var errExited = errors.New("renewal: Renew has ended its goroutine")

// renew has the store renew a batch. The caller holds mu, which is free meanwhile.
func (w *Watchdog[L]) renew(l *lane[L], b *batch[L]) {
	err := errExited
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.settle(l, b, err)
	}()
	err = w.call(b)
}

// call calls the store. The call ends with the latest deadline of the batch, not
// the earliest: a short lease must not take the time of healthy batch mates. Each
// entry's own timer guards its own deadline.
func (w *Watchdog[L]) call(b *batch[L]) error {
	timeout := w.opts.Timeout
	if timeout == 0 {
		timeout = b.patience
	}
	timeout = min(timeout, b.sent.until(b.deadline))
	ctx, cancel := context.WithTimeout(w.ctx, timeout)
	defer cancel()
	b.outcomes = b.outcomes[:len(b.leases)]
	clear(b.outcomes)
	return w.renewer.Renew(ctx, b.leases, b.outcomes)
}

// settle applies the outcomes and lets go of the leases. The caller holds mu.
func (w *Watchdog[L]) settle(l *lane[L], b *batch[L], err error) {
	now := w.clock.now()
	info := BatchInfo{Lane: l.id, Size: len(b.entries), Late: b.late, Took: time.Duration(now.mono - b.sent.mono), Err: err}
	for i, e := range b.entries {
		outcome := b.outcomes[i]
		switch {
		case e.state != renewing:
			info.Ended++
		case outcome == Renewed:
			info.Renewed++
		case outcome == Lost:
			info.Lost++
		default:
			info.Unknown++
		}
		e.settle(outcome, err, b.sent, now)
	}
	clear(b.entries)
	clear(b.leases)
	w.stats.Batches++
	w.stats.Renewed += uint64(info.Renewed)
	w.stats.Unknown += uint64(info.Unknown)
	if hook := w.opts.Hooks.BatchDone; hook != nil {
		w.reports.batch(func() { hook(info) })
	}
}

// buffers returns the memory of a worker that has gone, or new memory. The caller
// holds mu.
func (w *Watchdog[L]) buffers() *batch[L] {
	if n := len(w.spare); n > 0 {
		b := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return b
	}
	n := w.opts.MaxBatch
	return &batch[L]{entries: make([]*Entry[L], 0, n), leases: make([]L, 0, n), outcomes: make([]Outcome, 0, n)}
}
