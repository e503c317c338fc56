package renewal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/trace"
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/renewal"
)

// A loss has its cause and what was seen of it. A process that runs a flight recorder of package
// runtime/trace dumps it at the same moment, because the trace shows what the goroutines did.
func ExampleHooks() {
	recorder := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: 10 * time.Second})
	if err := recorder.Start(); err != nil { // only one can be active in a process
		fmt.Println(err)
		return
	}
	defer recorder.Stop()
	var dump bytes.Buffer // a file, in a program
	dumped := make(chan error)

	engine, err := heapqueue.NewScheduler(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	store := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
		return renewal.Unknown, errors.New("the disk is full")
	}}
	watchdog, err := renewal.New(engine, store, &renewal.Options{Policy: renewal.Policy{Failures: 1}, Hooks: &renewal.Hooks{
		Lost: func(i renewal.LostInfo) {
			fmt.Printf("lost %v: %v, %v\n", i.Lease, i.Err.Reason, i.Err.Cause())
			fmt.Println("seen:", i.Err.Seen() != "")
			_, err := recorder.WriteTo(&dump)
			dumped <- err
		},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer watchdog.Close(context.Background())
	if _, err := watchdog.Register("a", renewal.Grant{TTL: 2 * time.Second, Sent: time.Now()}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("dumped:", <-dumped == nil && dump.Len() > 0)
	// Output:
	// lost a: renewals failed, store error
	// seen: true
	// dumped: true
}
