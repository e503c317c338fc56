package leaseotel_test

import (
	"context"
	"fmt"

	leaseotel "github.com/leasewheel/leasewheel/contrib/plugin/otel"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// A client whose locks have metrics and spans, with the providers that the program has set with
// otel.SetMeterProvider and otel.SetTracerProvider.
func Example() {
	ctx := context.Background()
	telemetry, err := leaseotel.New(&leaseotel.Options{Store: "memory"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer telemetry.Close()
	client, err := telemetry.NewClient(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)

	held, err := client.Mutex("orders").Lock(ctx) // a span and a histogram
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(held.Unlock(ctx))
	// Output: <nil>
}
