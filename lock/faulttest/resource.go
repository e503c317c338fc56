// Resource: what a lock protects, and who writes to it without one.

package faulttest

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/fence"
)

// Resource stands for what the lock of a function protects, such as a table of a database. Its
// methods are safe for concurrent use.
type Resource struct {
	w   *world
	key string // of the lock that protects it, "" if that may be any lock
}

// Under returns the resource that only the lock with this key protects. A write to it under another
// lock is a mistake, and so is a token of another lock.
func (r *Resource) Under(key string) *Resource { return &Resource{w: r.w, key: key} }

// Write is a write to a resource that knows no tokens. It does nothing and returns the cause of ctx
// if ctx has ended, as a statement of database/sql does. It returns another error if a fault has
// prevented the write or lost its answer.
func (r *Resource) Write(ctx context.Context) error { return r.write(ctx, nil, caller()) }

// WriteFenced is a write with the token of the lock, for a resource that refuses tokens below the
// highest one that it has seen. The error then matches [fence.ErrStale]. Other errors are those of
// Write.
func (r *Resource) WriteFenced(ctx context.Context, token uint64) error {
	return r.write(ctx, &token, caller())
}

// caller returns the file and line that called a method of Resource.
func caller() string {
	_, file, line, _ := runtime.Caller(2)
	return place(file, line)
}

func place(file string, line int) string { return fmt.Sprintf("%s:%d", filepath.Base(file), line) }

func (r *Resource) write(ctx context.Context, token *uint64, where string) error {
	w := r.w
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
		_ = basic.Sleep(ctx, f.d)
		return errFault
	}
	err := r.effect(token, where)
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
func (r *Resource) effect(token *uint64, where string) error {
	w := r.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if token == nil {
		w.eventLocked("write (%s)", where)
		r.judge(where)
		return nil
	}
	w.eventLocked("write with token %d (%s)", *token, where)
	granted := slices.IndexFunc(w.leases, func(l *lease) bool { return l.usable && l.Token == *token && r.isUnder(l) })
	switch {
	case granted < 0:
		w.wrong("your function wrote with the token %d, which was not granted to it (%s): send held.Token()", *token, where)
	case *token < w.highest[r.key]:
		w.eventLocked("it is refused: a rival has written with token %d", w.highest[r.key])
		return &fence.StaleError{Resource: cmp.Or(r.key, "resource"), Token: *token, Highest: w.highest[r.key]}
	default:
		w.writes(w.leases[granted].Key, *token)
	}
	return nil
}

// writes records the token of a write under a lock. The caller holds mu.
func (w *world) writes(key string, token uint64) {
	w.highest[key] = max(w.highest[key], token)
	w.highest[""] = max(w.highest[""], token)
}

// isUnder reports whether a lease is of the lock that protects the resource.
func (r *Resource) isUnder(l *lease) bool { return r.key == "" || r.key == l.Key }

// judge looks for the lock of a write without a token. The caller holds mu.
func (r *Resource) judge(where string) {
	w, now := r.w, time.Now()
	var last *lease
	without := "without a lock"
	if r.key != "" {
		without = fmt.Sprintf("without the lock %q", r.key)
	}
	for _, l := range w.leases {
		if !l.usable || !r.isUnder(l) {
			continue
		}
		if l.reads {
			without = fmt.Sprintf("under %q as a reader", l.Key)
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
		w.wrong("your function wrote %s (%s)", without, where)
	case !last.unlocked.IsZero():
		w.wrong("your function wrote %v after Unlock (%s)", round(now.Sub(last.unlocked)), where)
	default:
		w.wrong("your function wrote %v after the loss of its lock (%s): %s", round(now.Sub(last.endedBy(now, w.fenced))), where, advice)
	}
}
