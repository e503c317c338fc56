package k8slock_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	k8slock "github.com/leasewheel/leasewheel/contrib/adapter/k8s"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// Every replica of a controller runs this program. The elector is that of client-go.
func Example() {
	client, err := lock.New(memstore.New(), nil) // in a controller: a redisstore
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	election := k8slock.New(client, "my-controller", "pod-1")
	ctx, cancel := election.Context(context.Background()) // also ends when the leadership is lost
	defer cancel()
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            election,
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				fmt.Println("leads with a token:", election.Held().Token() > 0)
				cancel() // as at a SIGTERM
			},
			OnStoppedLeading: func() { fmt.Println("leads no longer") },
		},
	})
	fmt.Println("released:", !election.Held().Valid())
	// Output:
	// leads with a token: true
	// leads no longer
	// released: true
}
