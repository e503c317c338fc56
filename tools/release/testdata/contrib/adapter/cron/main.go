// Command main uses the module contrib/adapter/cron as a program of its users does.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/robfig/cron/v3"

	cronlock "github.com/leasewheel/leasewheel/contrib/adapter/cron"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func main() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	job := cronlock.Func(func(_ context.Context, held *lock.Held) { fmt.Println("protected:", held.Valid()) })
	cron.NewChain(cronlock.SkipIfTaken(context.Background(), client.Mutex("report"), nil)).Then(job).Run()
}
