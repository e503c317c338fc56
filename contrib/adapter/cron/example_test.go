package cronlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	cronlock "github.com/leasewheel/leasewheel/contrib/adapter/cron"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// Every process runs this program. One of them makes the report of each hour.
func Example() {
	ctx, stop := context.WithCancel(context.Background()) // ends when the program stops
	defer stop()
	client, err := lock.New(memstore.New(), nil) // in a service: a redisstore
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	report := cronlock.Func(func(ctx context.Context, held *lock.Held) {
		fmt.Println("protected:", held.Valid()) // ctx ends if the lock is lost
	})
	hourly := client.With(lock.Terms{MinHold: 54 * time.Minute})
	once := cron.NewChain(cronlock.SkipIfTaken(ctx, hourly.Mutex("report"), nil)).Then(report)

	c := cron.New()
	if _, err := c.AddJob("0 * * * *", once); err != nil {
		fmt.Println(err)
		return
	}
	c.Start()
	defer c.Stop()

	once.Run() // as cron does, here and in another process
	once.Run()
	// Output:
	// protected: true
}
