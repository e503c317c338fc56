// Command main uses the module lock/zkstore as a program of its users does.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock/zkstore"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := zkstore.New(ctx, []string{"127.0.0.1:1"}, nil)
	fmt.Println("unavailable:", errors.Is(err, context.DeadlineExceeded))
}
