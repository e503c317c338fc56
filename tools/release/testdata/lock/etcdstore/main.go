// Command main uses the module lock/etcdstore as a program of its users does.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/etcdstore"
)

func main() {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
	if err != nil {
		log.Fatal(err)
	}
	defer etcd.Close()
	store, err := etcdstore.New(etcd, nil)
	if err != nil {
		log.Fatal(err)
	}
	client, err := lock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err = client.Mutex("k").TryLock(ctx)
	fmt.Println("unavailable:", errors.Is(err, lock.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded))
}
