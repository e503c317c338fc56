// Command main uses the module contrib/adapter/gocron as a program of its users does.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/go-co-op/gocron/v2"

	gocronlock "github.com/leasewheel/leasewheel/contrib/adapter/gocron"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func main() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	locker := gocronlock.New(client, nil)
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	held, err := locker.Lock(context.Background(), "report")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("protected:", held.Unlock(context.Background()) == nil && scheduler.Shutdown() == nil)
}
