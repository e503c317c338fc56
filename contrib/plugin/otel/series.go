// The attributes of a kind and name, made once.

package leaseotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

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

// seriesKey selects the series of locks: the name is "" without a Namer.
type seriesKey struct {
	kind lock.Kind
	name string
}

// series has the attributes that every lock of one kind and name needs. Making them each time
// would cost more than counting.
type series struct {
	common   []attribute.KeyValue // of all metrics and spans of these locks
	span     []trace.SpanStartOption
	acquired []metric.RecordOption // for acquire
	unlocked []metric.RecordOption // for hold
	election []metric.AddOption    // nil unless it is an election
}

// of returns the series of a lock, and makes them if it is the first of its kind and name.
func (t *Telemetry) of(i lock.HookInfo) *series {
	key := seriesKey{kind: i.Kind}
	if t.namer != nil {
		key.name = t.namer(i.Key)
	}
	t.mu.RLock()
	s := t.series[key]
	t.mu.RUnlock()
	if s != nil {
		return s
	}
	return t.add(key)
}

// add makes the series of a kind and name, unless another goroutine has done so. Counters begin
// with 0, so that the first loss is an increase.
func (t *Telemetry) add(key seriesKey) *series {
	s := &series{common: []attribute.KeyValue{t.store, keyKind.String(string(key.kind))}}
	if t.namer != nil {
		s.common = append(s.common, keyName.String(key.name))
	}
	s.span = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(s.common...)}
	s.acquired = s.record(keyOutcome.String(string(lock.OutcomeAcquired)))
	s.unlocked = s.record(keyEnd.String(string(lock.OutcomeUnlocked)))
	if key.kind == lock.KindElection {
		election := []attribute.KeyValue{t.store}
		if t.namer != nil {
			election = append(election, keyElection.String(key.name))
		}
		s.election = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(election...))}
	}
	t.mu.Lock()
	made := t.series[key]
	if made == nil {
		t.series[key] = s
	}
	t.mu.Unlock()
	if made != nil {
		return made
	}
	ctx := context.Background()
	for _, reason := range reasons {
		t.instruments.losses.Add(ctx, 0, s.with(keyReason.String(reason)))
	}
	if s.election != nil {
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
