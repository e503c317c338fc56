package leaseprom_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/metrictest"
	leaseprom "github.com/leasewheel/leasewheel/contrib/plugin/prometheus"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// BenchmarkPair is an uncontended Lock and its Unlock in memory, with and without metrics.
func BenchmarkPair(b *testing.B) {
	with := func(o *leaseprom.Options) metrictest.Open {
		return func(b *testing.B, store driver.Store) (*lock.Client, error) {
			m, err := leaseprom.New(o)
			require.NoError(b, err)
			return m.NewClient(store, nil)
		}
	}
	first := func(key string) string { name, _, _ := strings.Cut(key, ":"); return name }
	metrictest.Pairs(b, map[string]metrictest.Open{"metrics": with(nil), "names": with(&leaseprom.Options{Namer: first})})
}
