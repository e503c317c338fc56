package check

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
)

const interval = time.Minute // between two samples of a series, and two evaluations of a rule

// sample is a float at a time in milliseconds.
type sample struct {
	t int64
	v float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// table is a storage with synthetic series.
type table []storage.Series

// load reads series in the notation of promtool, such as `x{a="b"} 0+1x10`. The first sample
// is at time 0, and an interval is between any two.
func load(t *testing.T, series ...string) table {
	t.Helper()
	var all table
	for _, text := range series {
		of, values, err := promqlParser.ParseSeriesDesc(text)
		require.NoError(t, err, text)
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{int64(i) * interval.Milliseconds(), v.Value})
			}
		}
		all = append(all, storage.NewListSeries(of, samples))
	}
	return all
}

func (s table) queryable() storage.Queryable {
	find := func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		found := &set{at: -1}
		for _, one := range s {
			if matches(one.Labels(), matchers) {
				found.series = append(found.series, one)
			}
		}
		return found
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: find}}
}

func matches(of labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(of.Get(m.Name)) {
			return false
		}
	}
	return true
}

// set is a storage.SeriesSet.
type set struct {
	series []storage.Series
	at     int
}

func (s *set) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *set) At() storage.Series                { return s.series[s.at] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

// newEngine returns a query engine.
func newEngine(t *testing.T) *promql.Engine {
	t.Helper()
	e := promql.NewEngine(promql.EngineOpts{MaxSamples: 100_000, Timeout: time.Minute, Parser: promqlParser})
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// evaluate returns the result of a query at a time: the labels of each sample.
func (s table) evaluate(t *testing.T, e *promql.Engine, query string, at time.Duration) []labels.Labels {
	t.Helper()
	q, err := e.NewInstantQuery(t.Context(), s.queryable(), nil, query, time.UnixMilli(at.Milliseconds()))
	require.NoError(t, err, query)
	defer q.Close()
	vector, err := q.Exec(t.Context()).Vector()
	require.NoError(t, err, query)
	var found []labels.Labels
	for _, v := range vector {
		found = append(found, v.Metric)
	}
	return found
}
