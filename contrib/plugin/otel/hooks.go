// The hooks that record calls and losses.

package leaseotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/observe"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// Instrument returns a copy of the options, whose hooks report to this telemetry and then call
// the hooks that the options had. Use it for one client, made by lock.New, and call Watch with
// that client. A nil *lock.Options means the defaults.
func (t *Telemetry) Instrument(o *lock.Options) *lock.Options {
	opts := observe.Instrument(o, lock.Hooks{
		Acquiring: t.acquiring, Releasing: t.releasing,
		Waiting: t.waiting, Acquired: t.acquired, Refused: t.refused, Released: t.released, Lost: t.lost,
		BatchDone: t.batch,
	})
	t.engine.Store(observe.EngineOf(opts.Scheduler))
	return opts
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
	outcome, typ := keyOutcome.String(string(i.Outcome)), observe.AcquireError(i, errorOther)
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

// errorOther is the type of the semantic conventions for all other errors.
const errorOther = "_OTHER"

// releaseError returns the type of the error of an Unlock, or "". That the client was closed is
// no error.
func releaseError(i lock.HookInfo) string {
	if i.Err == nil || i.Outcome == lock.OutcomeClosed {
		return ""
	}
	return observe.ErrorType(i.Err, errorOther)
}

func (t *Telemetry) lost(ctx context.Context, i lock.HookInfo) {
	loss, s := observe.LossOf(i.Err), t.of(i)
	reason := keyReason.String(loss.Reason)
	t.instruments.losses.Add(ctx, 1, s.with(reason))
	t.instruments.hold.Record(ctx, i.Held.Seconds(), s.with(keyEnd.String(loss.End())))
	if loss.Known {
		t.instruments.margin.Record(ctx, loss.Left, t.with(reason))
	}
	if s.election != nil {
		t.instruments.leading.Add(ctx, -1, s.election...)
	}
	t.lossSpan(ctx, s, loss)
	callOf(ctx).released(loss.End(), "")
}

func (t *Telemetry) batch(i renewal.BatchInfo) {
	ctx, typ := context.Background(), observe.BatchError(i.Err)
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
