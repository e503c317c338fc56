// Command main uses the module contrib/plugin/prometheus as a program of its users does.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/prometheus/client_golang/prometheus"

	leaseprom "github.com/leasewheel/leasewheel/contrib/plugin/prometheus"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func main() {
	metrics, err := leaseprom.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	prometheus.MustRegister(metrics)
	client, err := metrics.NewClient(memstore.New(), nil)
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
