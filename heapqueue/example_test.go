package heapqueue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
)

// A worker takes jobs as they fall due. What comes in later but is due earlier
// overtakes, and a job not yet taken can be moved or called off.
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
		job, err := jobs.Pop(context.Background())
		fmt.Println(job, err)
	}
	// Output:
	// page the operator <nil>
	// make a backup <nil>
	// send the report <nil>
}

// A priority is an instant that has long passed: such values are due at once and
// leave in the order of their instants, and those of one instant first come, first
// served.
func ExampleQueue_priorities() {
	var jobs heapqueue.Queue[string]
	past := time.Now().Add(-time.Hour)
	priority := func(p int) time.Time { return past.Add(time.Duration(p)) } // 0 is the most urgent
	jobs.Push("clean up", priority(9))
	jobs.Push("resize an image", priority(5))
	jobs.Push("resize another", priority(5))
	jobs.Push("charge a card", priority(1))

	ended := make(chan string)
	go func() { // one of any number of workers
		defer close(ended)
		for {
			job, err := jobs.Pop(context.Background())
			if err != nil {
				return // the queue is closed
			}
			ended <- job
		}
	}()
	for range 4 {
		fmt.Println(<-ended)
	}
	jobs.Close()
	<-ended
	// Output:
	// charge a card
	// resize an image
	// resize another
	// clean up
}

// TryPop takes what is due by now as one batch, Peek says when there is more.
func ExampleQueue_TryPop() {
	var jobs heapqueue.Queue[string]
	noon := time.Now()
	jobs.Push("a", noon.Add(-2*time.Second))
	jobs.Push("b", noon.Add(-time.Second))
	jobs.Push("c", noon.Add(time.Hour))

	var batch []string
	for job, ok := jobs.TryPop(); ok; job, ok = jobs.TryPop() {
		batch = append(batch, job)
	}
	fmt.Println(batch)
	next, at, _ := jobs.Peek()
	fmt.Println(next, "in", at.Sub(noon))
	// Output:
	// [a b]
	// c in 1h0m0s
}

// Workers end when the queue is closed; what they did not come to is returned.
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
			job, err := jobs.Pop(context.Background())
			if errors.Is(err, schedule.ErrClosed) {
				return
			}
			first <- job
		}
	}()
	fmt.Println("done:", <-first)
	fmt.Println("left:", jobs.Close())
	<-ended
	// Output:
	// done: 0
	// left: [1 2]
}

// countdown is a task that arms its own timer again.
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
