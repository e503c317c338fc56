package lock_test

import (
	"context"
	"fmt"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// An operator looks at the holders of all locks of a kind of job.
func ExampleClient_List() {
	client, err := lock.New(memstore.New(), &lock.Options{Terms: lock.Terms{Metadata: "host-1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	ctx := context.Background()
	for _, key := range []string{"report:daily", "mail:4711"} {
		if _, err := client.Mutex(key).Lock(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}

	for key, err := range client.List(ctx, "report:") {
		if err != nil {
			fmt.Println(err)
			return
		}
		info, err := client.Inspect(ctx, key)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, h := range info.Holders {
			fmt.Printf("%q is held by %q\n", key, h.Metadata)
		}
	}
	// Output: "report:daily" is held by "host-1"
}
