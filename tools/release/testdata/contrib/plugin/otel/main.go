// Command main uses the module contrib/plugin/otel as a program of its users does.
package main

import (
	"context"
	"fmt"
	"log"

	leaseotel "github.com/leasewheel/leasewheel/contrib/plugin/otel"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func main() {
	telemetry, err := leaseotel.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer telemetry.Close()
	client, err := telemetry.NewClient(memstore.New(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	err = lock.Do(context.Background(), client.Mutex("k"), func(_ context.Context, held *lock.Held) error {
		fmt.Println("protected:", held.Valid())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
