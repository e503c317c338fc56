// The attributes of a kind and name, made once.

package leaseotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/observe"
	"github.com/leasewheel/leasewheel/lock"
)

// The keys of attributes.
const (
	keyKind     = attribute.Key("leasewheel.lock.kind")
	keyName     = attribute.Key("leasewheel.lock.name")
	keyElection = attribute.Key("leasewheel.election.name")
	keyOutcome  = attribute.Key("leasewheel.outcome")
	keyEnd      = attribute.Key("leasewheel.end")
	keyReason   = attribute.Key("leasewheel.loss.reason")
	keyCause    = attribute.Key("leasewheel.loss.cause")
	keyMargin   = attribute.Key("leasewheel.loss.margin")
	keyToken    = attribute.Key("leasewheel.lock.token")
	keyWaited   = attribute.Key("leasewheel.waited")
	keyError    = attribute.Key("error.type")
)

// series has the attributes that every lock of one kind and name needs.
type series struct {
	common   []attribute.KeyValue // of all metrics and spans of these locks
	span     []trace.SpanStartOption
	acquired []metric.RecordOption // for acquire
	unlocked []metric.RecordOption // for hold
	election []metric.AddOption    // nil unless it is an election
}

// of returns the series of a lock.
func (t *Telemetry) of(i lock.HookInfo) *series { return t.series.Of(t.series.Key(i)) }

// newSeries makes the series of a kind and name. Counters begin with 0, so that the first loss is an
// increase.
func (t *Telemetry) newSeries(key observe.Key) *series {
	s := &series{common: []attribute.KeyValue{t.store, keyKind.String(string(key.Kind))}}
	if t.series.Named() {
		s.common = append(s.common, keyName.String(key.Name))
	}
	s.span = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(s.common...)}
	s.acquired = s.record(keyOutcome.String(string(lock.OutcomeAcquired)))
	s.unlocked = s.record(keyEnd.String(string(lock.OutcomeUnlocked)))
	ctx := context.Background()
	for _, reason := range observe.Reasons {
		t.instruments.losses.Add(ctx, 0, s.with(keyReason.String(reason)))
	}
	if key.Kind == lock.KindElection {
		election := []attribute.KeyValue{t.store}
		if t.series.Named() {
			election = append(election, keyElection.String(key.Name))
		}
		s.election = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(election...))}
		t.instruments.leading.Add(ctx, 0, s.election...)
		t.instruments.transitions.Add(ctx, 0, s.election...)
	}
	return s
}

// with returns the attributes of the series and more.
func (s *series) with(more ...attribute.KeyValue) metric.MeasurementOption {
	all := append(make([]attribute.KeyValue, 0, len(s.common)+len(more)), s.common...)
	return metric.WithAttributeSet(attribute.NewSet(append(all, more...)...))
}

func (s *series) record(more ...attribute.KeyValue) []metric.RecordOption {
	return []metric.RecordOption{s.with(more...)}
}
