// Command renewdemo holds many locks and shows how they are renewed, on a store in memory or on a
// Redis server. With -proof it shows the order of events when a holder is cut off or paused and a rival
// gets its lock, and fails if they overlap. With -http it shows all of that on a web page, whose buttons
// inject the faults.
//
//	go run ./cmd/renewdemo
//	go run ./cmd/renewdemo -http localhost:8080
//	go run ./cmd/renewdemo -engine heap -leases 100000 -store localhost:6379 -for 60s
//	go run ./cmd/renewdemo -proof
package main

import (
	"os"

	"github.com/leasewheel/leasewheel/cmd/renewdemo/internal/demo"
)

func main() { os.Exit(demo.Main()) }
