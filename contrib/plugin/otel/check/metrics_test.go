package check

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/metrictest"
	leaseotel "github.com/leasewheel/leasewheel/contrib/plugin/otel"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/wheel"
)

func TestMetrics(t *testing.T) {
	metrictest.Run(t, func(t *testing.T, o metrictest.Options) metrictest.Plugin {
		return newPlugin(t, leaseotel.Options{Store: o.Store, Namer: o.Namer})
	})
}

// No attribute of a span has a key, unless there is a Namer.
func TestSpansHaveNoKey(t *testing.T) {
	bubble(t, leaseotel.Options{}, lock.Options{}, func(t *testing.T, b *bench) {
		require.NoError(t, b.Take(b.Mutex("users:1")).Unlock(ctx))
		spans := b.ended()
		assert.Len(t, spans, 2)
		for _, span := range spans {
			for _, a := range span.Attributes {
				assert.NotContains(t, a.Value.String(), ":1")
			}
		}
	})
}

// TestTheNamesFollowTheConventions checks the rules of OpenTelemetry for names and units, and that
// the package comment lists each metric with its unit.
func TestTheNamesFollowTheConventions(t *testing.T) {
	text, err := os.ReadFile("../doc.go")
	require.NoError(t, err)
	listed := regexp.MustCompile(`(?m)^//\t(leasewheel\.\S+) +\w+ +(\S+)`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, listed)
	synctest.Test(t, func(t *testing.T) {
		engine, err := wheel.New(nil)
		require.NoError(t, err)
		defer engine.Close()
		b := newBench(t, leaseotel.Options{Namer: strings.ToUpper})
		client, err := b.telemetry.NewClient(b.Store, &lock.Options{Scheduler: engine})
		require.NoError(t, err)
		defer client.Close(ctx)
		h := b.Take(client.Election("e", "me"))
		time.Sleep(time.Minute)
		b.Fail(locktest.Renew, metrictest.ErrIO)
		<-h.Done()
		all := b.points(t)
		for _, m := range listed {
			if assert.NotEmpty(t, all[m[1]], m[1]) {
				assert.Equal(t, m[2], all[m[1]][0].unit, m[1])
			}
		}
		assert.Len(t, all, len(listed), "the package comment lacks a metric")
		for name, points := range all {
			assert.Regexp(t, `^leasewheel(\.[a-z]+)+$`, name)
			assert.NotRegexp(t, `total|seconds`, name)
			for _, p := range points {
				assert.Regexp(t, `^(s|\{[a-z]+\})$`, p.unit, name)
				for _, a := range p.attributes.ToSlice() {
					assert.Regexp(t, `^(leasewheel(\.[a-z]+)+|error\.type)$`, string(a.Key), name)
				}
			}
		}
		require.NoError(t, b.telemetry.Close())
		b.Is(-1, "timers_pending")
		require.NoError(t, b.telemetry.Close())
	})
}

func TestBadOptions(t *testing.T) {
	_, err := leaseotel.New(&leaseotel.Options{Store: "\xff"})
	require.ErrorContains(t, err, "leaseotel: Options.Store")
	global, err := leaseotel.New(nil)
	require.NoError(t, err, "the global providers")
	_, err = global.NewClient(nil, nil)
	require.Error(t, err)
	client, err := global.NewClient(memstore.New(), nil)
	require.NoError(t, err)
	h, err := client.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, h.Unlock(ctx))
	require.NoError(t, client.Close(ctx))
	require.NoError(t, global.Close())
}
