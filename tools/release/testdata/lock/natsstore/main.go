// Command main uses the module lock/natsstore as a program of its users does.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasewheel/leasewheel/lock/natsstore"
)

func main() {
	nc, err := nats.Connect("nats://127.0.0.1:1", nats.RetryOnFailedConnect(true))
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err = natsstore.New(ctx, js, nil)
	fmt.Println("unavailable:", errors.Is(err, context.DeadlineExceeded))
}
