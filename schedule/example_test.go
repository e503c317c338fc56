package schedule_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// A function is called once, later, unless it is called off before.
func ExampleAfterFunc() {
	w, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()

	sent := make(chan string)
	if _, err := schedule.AfterFunc(w, 10*time.Millisecond, func() { sent <- "a reminder" }); err != nil {
		fmt.Println(err)
		return
	}
	second, err := schedule.AfterFunc(w, time.Hour, func() { sent <- "another one" })
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("sent:", <-sent)
	fmt.Println("called off:", second.Stop())
	// Output:
	// sent: a reminder
	// called off: true
}

// A periodic job stands on a grid and does not drift. It ends with its timer.
func ExampleEvery() {
	w, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()

	flushed := make(chan struct{}, 3)
	flush := func() {
		select {
		case flushed <- struct{}{}:
		default:
		}
	}
	timer, err := schedule.Every(w, 5*time.Millisecond, flush)
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range 3 {
		<-flushed
		fmt.Println("flush", n+1)
	}
	timer.Stop()
	// Output:
	// flush 1
	// flush 2
	// flush 3
}

// Debouncing: many changes in a row, and one save once it has been quiet for a
// while. Each change puts the timer off; one that has fired is armed anew.
func ExampleTimer_Reset_debounce() {
	w, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()

	const quiet = 500 * time.Millisecond
	saved := make(chan struct{})
	var timer schedule.Timer // the zero Timer refuses Reset, too
	changed := func() {
		if timer.Reset(quiet) {
			return
		}
		timer, err = schedule.AfterFunc(w, quiet, func() { saved <- struct{}{} })
		if err != nil {
			fmt.Println(err)
		}
	}
	for _, word := range []string{"one", "two", "three"} {
		fmt.Println("typed", word)
		changed()
	}
	<-saved
	fmt.Println("saved once")
	// Output:
	// typed one
	// typed two
	// typed three
	// saved once
}

// delivery is tried again and again, each time after twice as long. One timer
// serves all tries: its Run arms it anew.
type delivery struct {
	send  func() error
	wait  time.Duration
	tries int
	done  chan error // of one place, so that Run does not block
}

func (d *delivery) Run(t schedule.Timer) {
	d.tries++
	err := d.send()
	if err == nil || d.tries == 5 {
		d.done <- err
		return
	}
	fmt.Printf("try %d: %v, again in %v\n", d.tries, err, d.wait)
	t.Reset(d.wait)
	d.wait *= 2
}

// Retries with backoff. The function that is tried must not block, or else start
// a goroutine of its own, or the engine be given more workers.
func ExampleTask_retry() {
	s, err := heapqueue.NewScheduler(&heapqueue.Options{Workers: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	failures := 3
	d := &delivery{
		wait: time.Millisecond,
		done: make(chan error, 1),
		send: func() error {
			if failures--; failures >= 0 {
				return errors.New("unreachable")
			}
			return nil
		},
	}
	if _, err := s.Schedule(0, d); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("delivered:", <-d.done == nil)
	// Output:
	// try 1: unreachable, again in 1ms
	// try 2: unreachable, again in 2ms
	// try 3: unreachable, again in 4ms
	// delivered: true
}
