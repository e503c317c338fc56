// Command main uses the module contrib/adapter/tusd as a program of its users does.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/tus/tusd/v2/pkg/handler"

	tusdlock "github.com/leasewheel/leasewheel/contrib/adapter/tusd"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func main() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer client.Close(ctx)
	composer := handler.NewStoreComposer()
	tusdlock.New(client, nil).UseIn(composer)
	l, err := composer.Locker.NewLock("upload")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("protected:", l.Lock(ctx, func() {}) == nil && l.Unlock() == nil)
}
