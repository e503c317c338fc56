package leaseprom_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	leaseprom "github.com/leasewheel/leasewheel/contrib/plugin/prometheus"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// BenchmarkPair is an uncontended Lock and its Unlock in memory, with and without metrics.
func BenchmarkPair(b *testing.B) {
	plain := func(_ *testing.B, store driver.Store) (*lock.Client, error) { return lock.New(store, nil) }
	with := func(o *leaseprom.Options) func(*testing.B, driver.Store) (*lock.Client, error) {
		return func(b *testing.B, store driver.Store) (*lock.Client, error) {
			m, err := leaseprom.New(o)
			require.NoError(b, err)
			return m.NewClient(store, nil)
		}
	}
	for _, row := range []struct {
		name string
		open func(*testing.B, driver.Store) (*lock.Client, error)
	}{
		{"without", plain},
		{"metrics", with(nil)},
		{"names", with(&leaseprom.Options{Namer: func(key string) string { name, _, _ := strings.Cut(key, ":"); return name }})},
	} {
		b.Run(row.name, func(b *testing.B) {
			client, err := row.open(b, memstore.New())
			require.NoError(b, err)
			defer client.Close(ctx)
			m := client.Mutex("orders:1")
			b.ReportAllocs()
			for b.Loop() {
				h, err := m.Lock(ctx)
				if err != nil || h.Unlock(ctx) != nil {
					b.Fatal("not locked")
				}
			}
		})
	}
}
