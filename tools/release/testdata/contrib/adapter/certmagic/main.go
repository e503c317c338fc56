// Command main uses the module contrib/adapter/certmagic as a program of its users does.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/caddyserver/certmagic"

	certmagiclock "github.com/leasewheel/leasewheel/contrib/adapter/certmagic"
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
	storage := certmagiclock.Wrap(&certmagic.FileStorage{Path: os.TempDir()}, client, nil)
	fmt.Println("protected:", storage.Lock(ctx, "k") == nil && storage.Unlock(ctx, "k") == nil)
}
