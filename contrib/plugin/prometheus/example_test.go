package leaseprom_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	leaseprom "github.com/leasewheel/leasewheel/contrib/plugin/prometheus"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// A client whose metrics have a name for each group of keys.
func Example() {
	ctx := context.Background()
	metrics, err := leaseprom.New(&leaseprom.Options{
		Store: "memory",
		Namer: func(key string) string { // of few different names
			name, _, _ := strings.Cut(key, ":")
			return name
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	if err := registry.Register(metrics); err != nil {
		fmt.Println(err)
		return
	}
	client, err := metrics.NewClient(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)

	held, err := client.Mutex("orders:4711").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Unlock(ctx)
	fmt.Println(testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP leasewheel_leases_held Leases that are held and renewed.
# TYPE leasewheel_leases_held gauge
leasewheel_leases_held{store="memory"} 1
`), "leasewheel_leases_held"))
	// Output: <nil>
}
