package wheel_test

import (
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

func Example() {
	w, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()

	done := make(chan struct{})
	_, err = schedule.AfterFunc(w, 5*time.Millisecond, func() {
		fmt.Println("fired")
		close(done)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-done
	// Output: fired
}

// A connection that is idle for too long is closed: each read puts its timer off,
// which costs no allocation.
func Example_idleTimeout() {
	w, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()

	timer, err := schedule.AfterFunc(w, time.Minute, func() { fmt.Println("idle, closed") })
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		fmt.Println("read, put off:", timer.Reset(time.Minute))
	}
	fmt.Println("closed by its peer, called off:", timer.Stop())
	// Output:
	// read, put off: true
	// read, put off: true
	// read, put off: true
	// closed by its peer, called off: true
}

// Close gives back what never ran.
func ExampleWheel_Close() {
	w, err := wheel.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		if _, err := schedule.AfterFunc(w, time.Hour, func() {}); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(len(w.Close()), "tasks never ran")
	// Output: 3 tasks never ran
}
