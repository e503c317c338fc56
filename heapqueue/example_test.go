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
