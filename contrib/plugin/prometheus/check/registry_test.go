package check

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	leaseprom "github.com/leasewheel/leasewheel/contrib/plugin/prometheus"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/wheel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// promqlParser parses the queries of all tests.
var promqlParser = parser.NewParser(parser.Options{})

// exported are the labels of each series that leaseprom exports, by the name of the series.
type exported map[string]map[string]bool

// gathered returns what leaseprom exports after each kind of event.
func gathered(t *testing.T) (names exported) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		engine, err := wheel.New(nil)
		require.NoError(t, err)
		defer engine.Close()
		metrics, err := leaseprom.New(&leaseprom.Options{Namer: strings.ToUpper})
		require.NoError(t, err)
		registry := prometheus.NewPedanticRegistry()
		require.NoError(t, registry.Register(metrics))
		mem := memstore.New()
		client, err := metrics.NewClient(mem, &lock.Options{Scheduler: engine})
		require.NoError(t, err)
		defer client.Close(ctx)

		leader, err := client.Election("leader", "me").Lock(ctx)
		require.NoError(t, err)
		_, err = client.Election("leader", "you").TryLock(ctx)
		require.Error(t, err)
		time.Sleep(time.Minute)
		mem.Delete("leader")
		<-leader.Done()
		synctest.Wait()

		families, err := registry.Gather()
		require.NoError(t, err)
		names = exported{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				names.add(f.GetName(), f.GetType(), m)
			}
		}
	})
	return names
}

// add adds the series that a server makes of a metric.
func (e exported) add(name string, typ dto.MetricType, m *dto.Metric) {
	labels := []string{"job", "instance"} // of the server
	for _, l := range m.GetLabel() {
		labels = append(labels, l.GetName())
	}
	if typ != dto.MetricType_HISTOGRAM {
		e.series(name, labels)
		return
	}
	e.series(name+"_count", labels)
	e.series(name+"_sum", labels)
	e.series(name+"_bucket", append(labels, "le"))
}

func (e exported) series(name string, labels []string) {
	if e[name] == nil {
		e[name] = map[string]bool{}
	}
	for _, l := range labels {
		e[name][l] = true
	}
}

// check checks that a query names only series that are exported, with labels that they have,
// and returns the names.
func (e exported) check(t *testing.T, query string) []string {
	t.Helper()
	expr, err := promqlParser.ParseExpr(query)
	if !assert.NoError(t, err, query) {
		return nil
	}
	found := map[string]bool{}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		found[selector.Name] = true
		if !assert.Contains(t, e, selector.Name, query) {
			return nil
		}
		for _, m := range selector.LabelMatchers {
			if m.Name != "__name__" {
				assert.True(t, e[selector.Name][m.Name], "%s has no label %s: %s", selector.Name, m.Name, query)
			}
		}
		return nil
	})
	names := slices.Collect(maps.Keys(found))
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if by, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range by.Grouping {
				assert.True(t, slices.ContainsFunc(names, func(n string) bool { return e[n][label] }), "no series has the label %s: %s", label, query)
			}
		}
		return nil
	})
	assert.NotEmpty(t, names, query)
	return names
}

// metric returns the name of the metric that a series belongs to.
func metric(series string) string {
	for _, suffix := range []string{"_count", "_sum", "_bucket"} {
		series = strings.TrimSuffix(series, suffix)
	}
	return series
}
