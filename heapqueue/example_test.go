package heapqueue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
)

// A worker pops jobs when they are due. A job that is pushed later but is due earlier
// comes first. A job that is still in the queue can be moved or removed.
func ExampleQueue() {
	var jobs heapqueue.Queue[string]
	now := time.Now()
	jobs.Push("send the report", now.Add(30*time.Millisecond))
	backup, _ := jobs.Push("make a backup", now.Add(time.Hour))
	survey, _ := jobs.Push("send the survey", now.Add(40*time.Millisecond))
	jobs.Push("page the operator", now)

	jobs.Move(backup, now.Add(10*time.Millisecond))
	jobs.Remove(survey)

	for range 3 {
		item, err := jobs.Pop(context.Background())
		fmt.Println(item.Value, err)
	}
	// Output:
	// page the operator <nil>
	// make a backup <nil>
	// send the report <nil>
}

// A job queue needs delays and priorities. A job waits for its instant, and among the jobs
// that are due a worker takes the one with the greatest priority.
func ExampleQueue_priorities() {
	const low, normal, high = -1, 0, 1
	var jobs heapqueue.Queue[string]
	now := time.Now()
	jobs.PushPriority("clean up", now, low)
	jobs.PushPriority("resize an image", now, normal)
	jobs.PushPriority("resize another", now, normal)
	jobs.PushPriority("retry a payment", now.Add(time.Hour), high) // not due yet
	jobs.PushPriority("charge a card", now, high)

	ended := make(chan string)
	go func() { // one of any number of workers
		defer close(ended)
		for {
			item, err := jobs.Pop(context.Background())
			if err != nil {
				return // the queue is closed
			}
			ended <- item.Value
		}
	}()
	for range 4 {
		fmt.Println(<-ended)
	}
	for _, item := range jobs.Close() {
		fmt.Println("left:", item.Value, "in", item.At.Sub(now))
	}
	<-ended
	// Output:
	// charge a card
	// resize an image
	// resize another
	// clean up
	// left: retry a payment in 1h0m0s
}

// All lists a queue, and the listed items can be removed or moved.
func ExampleQueue_All() {
	var jobs heapqueue.Queue[string]
	noon := time.Now()
	jobs.Push("mail for ann", noon.Add(2*time.Hour))
	jobs.Push("mail for bob", noon.Add(time.Hour))
	jobs.PushPriority("mail for cid", noon.Add(2*time.Hour), 1)

	for item := range jobs.All() {
		fmt.Println(item.Value, "in", item.At.Sub(noon), "priority", item.Priority)
		if item.Value == "mail for bob" {
			jobs.Remove(item.Handle)
		}
	}
	fmt.Println("left:", jobs.Len())
	// Output:
	// mail for bob in 1h0m0s priority 0
	// mail for cid in 2h0m0s priority 1
	// mail for ann in 2h0m0s priority 0
	// left: 2
}

// A program that can cancel jobs keeps their handles. Item.Handle finds the entry of a
// popped job, also if the job is popped before the producer has stored the handle.
func ExampleItem() {
	var (
		jobs      heapqueue.Queue[string]
		mu        sync.Mutex // guards cancelers
		cancelers = map[heapqueue.Handle[string]]func(){}
	)
	mu.Lock() // until the handle is stored
	handle, _ := jobs.Push("resize an image", time.Now())
	cancelers[handle] = func() { jobs.Remove(handle) }
	mu.Unlock()

	item, _ := jobs.Pop(context.Background())
	mu.Lock()
	delete(cancelers, item.Handle)
	mu.Unlock()
	fmt.Println(item.Value, len(cancelers))
	// Output:
	// resize an image 0
}

// PopDue returns all values that are due. Peek tells when the next one is.
func ExampleQueue_PopDue() {
	var jobs heapqueue.Queue[string]
	noon := time.Now()
	jobs.Push("a", noon.Add(-2*time.Second))
	jobs.Push("b", noon.Add(-time.Second))
	jobs.Push("c", noon.Add(time.Hour))

	for _, item := range jobs.PopDue() {
		fmt.Println(item.Value)
	}
	next, _ := jobs.Peek()
	fmt.Println(next.Value, "in", next.At.Sub(noon))
	// Output:
	// a
	// b
	// c in 1h0m0s
}

// Close ends the workers and returns the jobs that were not popped.
func ExampleQueue_Close() {
	var jobs heapqueue.Queue[int]
	for i := range 3 {
		jobs.Push(i, time.Now().Add(time.Duration(i)*time.Hour))
	}
	ended := make(chan struct{})
	first := make(chan int)
	go func() {
		defer close(ended)
		for {
			item, err := jobs.Pop(context.Background())
			if errors.Is(err, schedule.ErrClosed) {
				return
			}
			first <- item.Value
		}
	}()
	fmt.Println("done:", <-first)
	for _, item := range jobs.Close() {
		fmt.Println("left:", item.Value)
	}
	<-ended
	// Output:
	// done: 0
	// left: 1
	// left: 2
}

// countdown is a task that re-arms its timer.
type countdown struct {
	left int
	done chan struct{}
}

func (c *countdown) Run(t schedule.Timer) {
	fmt.Println(c.left)
	c.left--
	if c.left == 0 {
		close(c.done)
		return
	}
	t.Reset(time.Millisecond)
}

func ExampleScheduler() {
	s, err := heapqueue.NewScheduler(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	c := &countdown{left: 3, done: make(chan struct{})}
	s.Schedule(time.Millisecond, c)
	alarm, _ := s.Schedule(time.Hour, c)
	<-c.done

	fmt.Println("stopped:", alarm.Stop())
	fmt.Println("left:", len(s.Close()))
	// Output:
	// 3
	// 2
	// 1
	// stopped: true
	// left: 0
}
