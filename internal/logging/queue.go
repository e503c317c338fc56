// The queue between the library and a Logger, for which nobody waits.

package logging

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	maxQueued = 256         // records of a queue
	flushTime = time.Second // the longest wait of Flush
)

// queue passes records on in order. Its goroutine exists only while there are records, so it ends
// without a signal, unless a handler blocks for ever.
type queue struct {
	mu      sync.Mutex // guards all below
	records []queued
	dropped uint64
	idle    chan struct{} // closed when the goroutine ends; nil if there is none
}

// queued is a record for a handler.
type queued struct {
	to     slog.Handler
	ctx    context.Context
	record slog.Record
}

// add queues a record, or drops it if the queue is full.
func (q *queue) add(r queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.records) >= maxQueued {
		q.dropped++
		return
	}
	q.records = append(q.records, r)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.run()
	}
}

// run passes records on until none is left. If a handler panics or calls runtime.Goexit, as FailNow
// of a test does, its record counts as dropped and a new goroutine continues.
func (q *queue) run() {
	finished := false
	defer func() {
		if finished {
			return
		}
		_ = recover() // a Logger that fails must not end the process of a holder
		q.mu.Lock()
		q.dropped++
		q.mu.Unlock()
		go q.run()
	}()
	for {
		r, ok := q.next()
		if !ok {
			break
		}
		if r.to.Enabled(r.ctx, r.record.Level) {
			_ = r.to.Handle(r.ctx, r.record)
		}
	}
	finished = true
}

// next removes a record. If none is left it returns false, and run must return.
func (q *queue) next() (r queued, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.records) == 0 {
		q.records = nil // frees the array
		close(q.idle)
		q.idle = nil
		return queued{}, false
	}
	r = q.records[0]
	q.records[0] = queued{}
	q.records = q.records[1:]
	return r, true
}

// Flush waits until the records of a logger of New are written, until ctx ends, and for a second
// at most. Close calls it so that a process may end after Close.
func Flush(ctx context.Context, l *slog.Logger) {
	h, ok := handlerOf(l)
	if !ok {
		return
	}
	h.queue.mu.Lock()
	idle := h.queue.idle
	h.queue.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(flushTime)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Dropped returns how many records of a logger of New were dropped.
func Dropped(l *slog.Logger) uint64 {
	h, ok := handlerOf(l)
	if !ok {
		return 0
	}
	h.queue.mu.Lock()
	defer h.queue.mu.Unlock()
	return h.queue.dropped
}
