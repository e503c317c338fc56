// The hooks that record calls and losses.

package leaseotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// Instrument returns a copy of the options, whose hooks report to this telemetry and then call
// the hooks that the options had. Use it for one client, made by lock.New, and call Watch with
// that client. A nil *lock.Options means the defaults.
func (t *Telemetry) Instrument(o *lock.Options) *lock.Options {
	if o == nil {
		o = new(lock.Options)
	}
	opts := *o
	opts.Hooks = t.lockHooks(o.Hooks)
	opts.Renewal.Hooks = t.renewalHooks(o.Renewal.Hooks)
	t.engine.Store(engineOf(o.Scheduler))
	return &opts
}

// engineOf returns the engine behind a Scheduler, or nil if it has no Stats.
func engineOf(s schedule.Scheduler) *engine {
	counting, ok := s.(interface{ Stats() schedule.Stats })
	if !ok {
		return nil
	}
	e := &engine{label: "other", stats: counting.Stats}
	switch s.(type) {
	case *wheel.Wheel:
		e.label = "wheel"
	case *heapqueue.Scheduler:
		e.label = "heap"
	}
	return e
}

// Hooks of package lock.
type (
	lockHook    = func(context.Context, lock.HookInfo)
	contextHook = func(context.Context, lock.HookInfo) context.Context
)

// lockHooks returns the hooks of the telemetry, followed by those of the user.
func (t *Telemetry) lockHooks(user *lock.Hooks) *lock.Hooks {
	var hooks lock.Hooks
	if user != nil {
		hooks = *user
	}
	hooks.Acquiring = inside(t.acquiring, hooks.Acquiring)
	hooks.Releasing = inside(t.releasing, hooks.Releasing)
	hooks.Waiting = both(t.waiting, hooks.Waiting)
	hooks.Acquired = both(t.acquired, hooks.Acquired)
	hooks.Refused = both(t.refused, hooks.Refused)
	hooks.Released = both(t.released, hooks.Released)
	hooks.Lost = both(t.lost, hooks.Lost)
	return &hooks
}

// both returns a hook that calls first and then second, which may be nil.
func both(first, second lockHook) lockHook {
	if second == nil {
		return first
	}
	return func(ctx context.Context, i lock.HookInfo) {
		first(ctx, i)
		second(ctx, i)
	}
}

// inside returns a hook that calls second with the context of first. second may be nil.
func inside(first, second contextHook) contextHook {
	if second == nil {
		return first
	}
	return func(ctx context.Context, i lock.HookInfo) context.Context {
		ctx = first(ctx, i)
		if made := second(ctx, i); made != nil {
			return made
		}
		return ctx
	}
}

// renewalHooks returns the hooks of the telemetry, followed by those of the user.
func (t *Telemetry) renewalHooks(user *renewal.Hooks) *renewal.Hooks {
	var hooks renewal.Hooks
	if user != nil {
		hooks = *user
	}
	after := hooks.BatchDone
	hooks.BatchDone = func(i renewal.BatchInfo) {
		t.batch(i)
		if after != nil {
			after(i)
		}
	}
	return &hooks
}

func (t *Telemetry) acquiring(ctx context.Context, i lock.HookInfo) context.Context {
	return t.begin(ctx, "lock acquire", t.of(i))
}

func (t *Telemetry) releasing(ctx context.Context, i lock.HookInfo) context.Context {
	return t.begin(ctx, "lock release", t.of(i))
}

func (t *Telemetry) waiting(ctx context.Context, _ lock.HookInfo) {
	callOf(ctx).waits()
}

func (t *Telemetry) acquired(ctx context.Context, i lock.HookInfo) {
	s := t.of(i)
	t.instruments.acquire.Record(ctx, i.Waited.Seconds(), s.acquired...)
	if s.election != nil {
		t.instruments.leading.Add(ctx, 1, s.election...)
		t.instruments.transitions.Add(ctx, 1, s.election...)
	}
	callOf(ctx).acquired(i)
}

func (t *Telemetry) refused(ctx context.Context, i lock.HookInfo) {
	outcome, typ := keyOutcome.String(string(i.Outcome)), acquireError(i)
	more := []attribute.KeyValue{outcome}
	if typ != "" {
		more = append(more, keyError.String(typ))
	}
	t.instruments.acquire.Record(ctx, i.Waited.Seconds(), t.of(i).with(more...))
	callOf(ctx).refused(more, typ)
}

func (t *Telemetry) released(ctx context.Context, i lock.HookInfo) {
	s := t.of(i)
	if i.Outcome == lock.OutcomeUnlocked {
		t.instruments.hold.Record(ctx, i.Held.Seconds(), s.unlocked...)
	} else {
		t.instruments.hold.Record(ctx, i.Held.Seconds(), s.with(keyEnd.String(string(i.Outcome))))
	}
	if s.election != nil {
		t.instruments.leading.Add(ctx, -1, s.election...)
	}
	callOf(ctx).released(string(i.Outcome), releaseError(i))
}

func (t *Telemetry) lost(ctx context.Context, i lock.HookInfo) {
	loss, s := lossOf(i.Err), t.of(i)
	reason := keyReason.String(loss.reason)
	t.instruments.losses.Add(ctx, 1, s.with(reason))
	t.instruments.hold.Record(ctx, i.Held.Seconds(), s.with(keyEnd.String(loss.end())))
	if loss.known {
		t.instruments.margin.Record(ctx, loss.left, t.with(reason))
	}
	if s.election != nil {
		t.instruments.leading.Add(ctx, -1, s.election...)
	}
	t.lossSpan(ctx, s, loss)
	callOf(ctx).released(loss.end(), "")
}

func (t *Telemetry) batch(i renewal.BatchInfo) {
	ctx, typ := context.Background(), batchError(i.Err)
	var more []attribute.KeyValue
	if typ != "" {
		more = append(more, keyError.String(typ))
	}
	attributes := t.with()
	t.instruments.batchTook.Record(ctx, i.Took.Seconds(), t.with(more...))
	t.instruments.batchSize.Record(ctx, int64(i.Size), attributes)
	t.instruments.lateness.Record(ctx, i.Late.Seconds(), attributes)
	t.batchSpan(ctx, i, typ)
}
