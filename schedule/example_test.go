package schedule_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// AfterFunc calls a function once, unless the timer is stopped before.
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
	fmt.Println("stopped:", second.Stop())
	// Output:
	// sent: a reminder
	// stopped: true
}

// Every calls a function periodically until its timer is stopped.
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

// A job that takes too long misses its next calls. EveryWith decides what becomes of them:
// CatchUpMissed makes them as soon as it can, so that there is one call for each period.
func ExampleEveryWith() {
	s, err := heapqueue.NewScheduler(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	const period = 10 * time.Millisecond
	reports, begin := make(chan int, 100), time.Now() // room for calls that begin before Stop
	n := 0
	report := func() {
		n++
		if n == 1 {
			time.Sleep(5 * period) // the calls 2 to 5 are missed
		}
		reports <- n
	}
	timer, err := schedule.EveryWith(s, period, schedule.CatchUpMissed, report)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 8 {
		fmt.Println("report", <-reports)
	}
	timer.Stop()
	fmt.Println("in time again:", time.Since(begin) >= 8*period)
	// Output:
	// report 1
	// report 2
	// report 3
	// report 4
	// report 5
	// report 6
	// report 7
	// report 8
	// in time again: true
}

// Debouncing saves many changes at once, after a time without further changes. Each change
// resets the timer. If the timer has fired already, the change schedules a new one.
func ExampleTimer_Reset_debounce() {
	w, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()

	const quiet = 500 * time.Millisecond
	saved := make(chan struct{})
	var timer schedule.Timer // Reset of the zero Timer returns false
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

// delivery is a task that retries with exponential backoff. One timer serves all tries,
// because Run resets it.
type delivery struct {
	send  func() error
	wait  time.Duration
	tries int
	done  chan error // with a buffer of one, so that Run does not block
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

// A task retries a function with exponential backoff. If the function can block, start it in
// a goroutine of its own, or give the engine more workers.
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
