package tusdlock_test

import (
	"context"
	"fmt"

	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"

	tusdlock "github.com/leasewheel/leasewheel/contrib/adapter/tusd"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// Instances of tusd share a folder, and the locks of a store.
func Example() {
	client, err := lock.New(memstore.New(), nil) // in a service: a redisstore
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	composer := handler.NewStoreComposer()
	filestore.New("/mnt/uploads").UseIn(composer)
	tusdlock.New(client, nil).UseIn(composer)
	_, err = handler.NewHandler(handler.Config{StoreComposer: composer, BasePath: "/files/"})
	fmt.Println(composer.UsesLocker, err)
	// Output: true <nil>
}
