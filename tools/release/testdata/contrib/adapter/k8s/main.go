// Command main uses the module contrib/adapter/k8s as a program of its users does.
package main

import (
	"context"
	"fmt"
	"log"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	k8slock "github.com/leasewheel/leasewheel/contrib/adapter/k8s"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func main() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	election := k8slock.New(client, "controller", "pod")
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "pod", LeaseDurationSeconds: 15}
	if err := election.Create(context.Background(), record); err != nil {
		log.Fatal(err)
	}
	fmt.Println("leads:", election.Held().Valid())
}
