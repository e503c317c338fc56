package renewal_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/wheel"
)

// registry is a fake server that renews leases of names.
type registry struct{}

func (registry) Renew(_ context.Context, batch []string, out []renewal.Outcome) error {
	for i := range batch {
		out[i] = renewal.Lost // it has forgotten them all
	}
	return nil
}

// A watchdog renews leases of any type and reports their loss.
func Example() {
	engine, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	watchdog, err := renewal.New(engine, registry{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer watchdog.Close(context.Background())

	sent := time.Now() // before the request that grants the lease
	entry, err := watchdog.Register("my-service", renewal.Grant{TTL: 3 * time.Second, Sent: sent})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-entry.Done()
	fmt.Println(entry.Err())
	// Output: renewal: lease lost: no longer owned
}
