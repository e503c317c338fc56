package wheel_test

import (
	"fmt"
	"net"
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

// An idle timeout closes a connection. Each read resets its timer, which takes a few dozen
// nanoseconds and no allocation.
func Example_idleTimeout() {
	w, err := wheel.New(&wheel.Options{Tick: 10 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()

	client, server := net.Pipe()
	go func() {
		for _, word := range []string{"hello", "again"} {
			client.Write([]byte(word))
		}
	}()
	fmt.Println("closed:", serve(w, server, 500*time.Millisecond))
	// Output:
	// read hello
	// read again
	// closed: io: read/write on closed pipe
}

func serve(w *wheel.Wheel, conn net.Conn, idle time.Duration) error {
	timer, err := schedule.AfterFunc(w, idle, func() { conn.Close() })
	if err != nil {
		return err
	}
	defer timer.Stop()
	buffer := make([]byte, 1024)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return err
		}
		timer.Reset(idle) // if the timer has fired already, the next Read returns an error
		fmt.Printf("read %s\n", buffer[:n])
	}
}

// Close returns the tasks that have not run.
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
