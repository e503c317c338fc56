package gocronlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	gocronlock "github.com/leasewheel/leasewheel/contrib/adapter/gocron"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// Every replica runs this program. One of them makes the report of each hour.
func Example() {
	ctx := context.Background()
	client, err := lock.New(memstore.New(), nil) // in a service: a redisstore
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)
	locker := gocronlock.New(client.With(lock.Terms{MinHold: 54 * time.Minute}), nil)
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer scheduler.Shutdown()

	done := make(chan struct{})
	report := func() {
		fmt.Println("protected:", locker.Held("report").Valid())
		close(done)
	}
	hourly := gocron.CronJob("0 * * * *", false)
	job, err := scheduler.NewJob(hourly, gocron.NewTask(report), gocron.WithName("report"))
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduler.Start()
	if err := job.RunNow(); err != nil {
		fmt.Println(err)
		return
	}
	<-done
	// Output:
	// protected: true
}

// One replica runs all jobs, until it stops or crashes.
func ExampleElector() {
	ctx := context.Background()
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)
	elector := gocronlock.NewElector(client.Election("jobs", "host-1"))
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduler.Start()

	fmt.Println("leads:", elector.IsLeader(ctx) == nil) // gocron asks before each job

	fmt.Println("shut down:", scheduler.Shutdown()) // first the jobs end,
	fmt.Println("resigned:", elector.Close(ctx))    // then another replica may lead
	// Output:
	// leads: true
	// shut down: <nil>
	// resigned: <nil>
}
