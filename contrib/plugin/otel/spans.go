// The spans of calls and losses.

package leaseotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/observe"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// call is a Lock, TryLock or Unlock, in the context that its hooks get. A nil call is one
// without a span, such as a Downgrade.
type call struct {
	span    trace.Span
	outside trace.Span // the span of the ctx that the user has passed
}

type callKey struct{}

// begin starts a span, and returns the context for the call.
func (t *Telemetry) begin(ctx context.Context, name string, s *series) context.Context {
	c := &call{outside: trace.SpanFromContext(ctx)}
	ctx, c.span = t.tracer.Start(ctx, name, s.span...)
	return context.WithValue(ctx, callKey{}, c)
}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

func (c *call) waits() {
	if c != nil {
		c.span.SetAttributes(keyWaited.Bool(true))
		c.span.AddEvent("queued")
	}
}

func (c *call) acquired(i lock.HookInfo) {
	if c == nil {
		return
	}
	if c.span.IsRecording() {
		c.span.SetAttributes(keyOutcome.String(string(i.Outcome)), keyToken.Int64(int64(i.Token)))
	}
	c.span.End()
}

// refused ends the span of a call that has acquired nothing. typ is the type of its error, or
// "" if it is none.
func (c *call) refused(attributes []attribute.KeyValue, typ string) {
	if c == nil {
		return
	}
	c.span.SetAttributes(attributes...)
	if typ != "" {
		c.span.SetStatus(codes.Error, typ)
	}
	c.span.End()
}

// released ends the span of an Unlock. The context of a lock that ends in another way has the
// call of its Lock, whose span has ended and ignores this.
func (c *call) released(end, typ string) {
	if c == nil {
		return
	}
	if c.span.IsRecording() {
		c.span.SetAttributes(keyEnd.String(end))
	}
	if typ != "" {
		c.span.SetAttributes(keyError.String(typ))
		c.span.SetStatus(codes.Error, typ)
	}
	c.span.End()
}

// lossSpan reports a loss to the span of the ctx that the user has passed to Lock, or to the
// Unlock that has noticed the loss. A holder that sees Done may end that span before the hook
// runs. The loss is then a child of the span, if that was sampled.
func (t *Telemetry) lossSpan(ctx context.Context, s *series, l observe.Loss) {
	span := trace.SpanFromContext(ctx)
	if c := callOf(ctx); c != nil {
		span = c.outside
	}
	if !span.IsRecording() && !span.SpanContext().IsSampled() {
		return
	}
	attributes := append([]attribute.KeyValue{keyReason.String(l.Reason), keyCause.String(l.Cause)}, s.common...)
	if l.Known {
		attributes = append(attributes, keyMargin.Float64(l.Left))
	}
	if span.IsRecording() {
		span.AddEvent("lease lost", trace.WithAttributes(attributes...))
		return
	}
	_, late := t.tracer.Start(trace.ContextWithSpan(ctx, span), "lease lost",
		trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(attributes...))
	late.End()
}

// batchSpan makes a span of a batch of renewals that failed or was late. It belongs to no trace
// of a caller.
func (t *Telemetry) batchSpan(ctx context.Context, i renewal.BatchInfo, typ string) {
	late := t.lateRenewal >= 0 && i.Late >= t.lateRenewal
	if typ == "" && i.Unknown == 0 && !late {
		return
	}
	end := time.Now()
	_, span := t.tracer.Start(ctx, "lease renewal batch", trace.WithTimestamp(end.Add(-i.Took)),
		trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(t.store,
			attribute.Int("leasewheel.renewal.batch.size", i.Size),
			attribute.Int("leasewheel.renewal.renewed", i.Renewed),
			attribute.Int("leasewheel.renewal.not_owned", i.Lost),
			attribute.Int("leasewheel.renewal.unknown", i.Unknown),
			attribute.Float64("leasewheel.renewal.lateness", i.Late.Seconds()),
		))
	if typ != "" {
		span.SetAttributes(keyError.String(typ))
		span.SetStatus(codes.Error, typ)
	}
	span.End(trace.WithTimestamp(end))
}

// with returns the attributes of a metric that is not of one lock.
func (t *Telemetry) with(more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(more, t.store)...))
}
