// This file is about Resource: what a lock protects, and who writes to it without one.

package faulttest

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/leasewheel/leasewheel/lock/fence"
)

// Resource stands for what the lock of a function protects, such as a table of a database. Its
// methods are safe for concurrent use.
type Resource struct{ w *world }

// Write is a write to a resource that knows no tokens. It does nothing and returns the cause of ctx
// if ctx has ended, as a statement of database/sql does. It returns another error if a fault has
// prevented the write or lost its answer.
func (r *Resource) Write(ctx context.Context) error { return r.w.write(ctx, nil, caller()) }

// WriteFenced is a write with the token of the lock, for a resource that refuses tokens below the
// highest one that it has seen. The error then matches [fence.ErrStale]. Other errors are those of
// Write.
func (r *Resource) WriteFenced(ctx context.Context, token uint64) error {
	return r.w.write(ctx, &token, caller())
}

// caller returns the file and line that called a method of Resource.
func caller() string {
	_, file, line, _ := runtime.Caller(2)
	return fmt.Sprintf("%s:%d", filepath.Base(file), line)
}

func (w *world) write(ctx context.Context, token *uint64, where string) error {
	if ctx.Err() != nil {
		w.event("a write is cancelled (%s)", where)
		return context.Cause(ctx)
	}
	f := w.point()
	stopsBefore := f.kind == stop && f.flip && w.fenced
	if stopsBefore {
		w.stopHere(f)
		w.awaitRunning()
	}
	if f.kind == loseRequest || f.kind == hang {
		w.event("a write fails (%s)", where)
		sleep(ctx, f.d)
		return errFault
	}
	err := w.effect(token, where)
	if !stopsBefore {
		w.happen(f)
		w.awaitRunning()
	}
	if f.kind == loseAnswer && err == nil {
		w.event("the answer of the write is lost")
		return errFault
	}
	return err
}

// effect executes a write.
func (w *world) effect(token *uint64, where string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if token == nil {
		w.eventLocked("write (%s)", where)
		w.judge(where)
		return nil
	}
	w.eventLocked("write with token %d (%s)", *token, where)
	switch {
	case !w.tokens[*token]:
		w.wrong("your function wrote with the token %d, which was not granted to it (%s): send held.Token()", *token, where)
	case *token < w.highest:
		w.eventLocked("it is refused: a rival has written with token %d", w.highest)
		return &fence.StaleError{Resource: "resource", Token: *token, Highest: w.highest}
	}
	w.highest = *token
	return nil
}

// judge looks for the lock of a write without a token. The caller holds mu.
func (w *world) judge(where string) {
	now := time.Now()
	var last *lease
	for _, l := range w.leases {
		if !l.usable {
			continue
		}
		if l.endedBy(now, w.fenced).IsZero() {
			return
		}
		if last == nil || !l.endedBy(now, w.fenced).Before(last.endedBy(now, w.fenced)) {
			last = l
		}
	}
	advice := "pass ctx to the query, check held.Valid() right before it, or send held.Token()"
	if w.fenced {
		advice = "only a token protects from that: call WriteFenced with held.Token()"
	}
	switch {
	case last == nil:
		w.wrong("your function wrote without a lock (%s)", where)
	case !last.unlocked.IsZero():
		w.wrong("your function wrote %v after Unlock (%s)", round(now.Sub(last.unlocked)), where)
	default:
		w.wrong("your function wrote %v after the loss of its lock (%s): %s", round(now.Sub(last.endedBy(now, w.fenced))), where, advice)
	}
}
