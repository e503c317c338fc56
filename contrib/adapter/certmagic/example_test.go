package certmagiclock_test

import (
	"context"
	"fmt"
	"os"

	"github.com/caddyserver/certmagic"

	certmagiclock "github.com/leasewheel/leasewheel/contrib/adapter/certmagic"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// The certificates stay where they are; the locks move to the store of the client.
func Example() {
	folder, err := os.MkdirTemp("", "certmagic")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	client, err := lock.New(memstore.New(), nil) // in a service: a redisstore
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	files := &certmagic.FileStorage{Path: folder} // for example on NFS
	storage := certmagiclock.Wrap(files, client, nil)
	// certmagic.Default.Storage = storage

	ctx := context.Background()
	fmt.Println(storage.Lock(ctx, "issue_cert_example.com"))
	fmt.Println(storage.TryLock(ctx, "issue_cert_example.com"))
	fmt.Println(storage.Unlock(ctx, "issue_cert_example.com"))
	// Output:
	// <nil>
	// false <nil>
	// <nil>
}
