package etcdstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/etcdstore"
)

// The program needs a server at 127.0.0.1:2379, so it is compiled but not run as a test.
func Example() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints:            []string{"127.0.0.1:2379"},
		DialTimeout:          5 * time.Second,
		DialKeepAliveTime:    10 * time.Second, // notices a server that hangs
		DialKeepAliveTimeout: 3 * time.Second,
	})
	if err != nil {
		return err
	}
	defer etcd.Close() // after the locks
	store, err := etcdstore.New(etcd, nil)
	if err != nil {
		return err
	}
	locks, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: 15 * time.Second}})
	if err != nil {
		return err
	}
	defer locks.Close(ctx)

	held, err := locks.Mutex("reports/daily").Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Println("fencing token:", held.Token()) // a revision of etcd
	return held.Unlock(ctx)
}
