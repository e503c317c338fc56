package heapqueue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
)

// manyDue is the number of due values in these tests. It is larger than a batch.
const manyDue = 200

func TestQueueDoesNotAllocate(t *testing.T) {
	var q heapqueue.Queue[int]
	now, ctx := time.Now(), t.Context()
	push(t, &q, 0, now.Add(time.Hour))
	for name, f := range map[string]func(){
		"Push, Move, Remove": func() {
			item, _ := q.Push(1, now.Add(time.Minute))
			q.Move(item, now.Add(2*time.Minute))
			q.Remove(item)
		},
		"Push, Peek, Len, Pop of a due value": func() {
			q.Push(1, now)
			q.Peek()
			q.Len()
			q.Pop(ctx)
		},
		"PushPriority, SetPriority, Move, Pop, TryPop": func() {
			for i := range manyDue {
				handle, _ := q.PushPriority(i, now, i%3)
				q.SetPriority(handle, 1+i%2)
				q.Move(handle, now.Add(-time.Second))
			}
			q.Pop(ctx)
			for range manyDue - 1 {
				q.TryPop()
			}
		},
		"Push, TryPop of several batches": func() {
			for i := range manyDue {
				q.Push(i, now)
			}
			for range manyDue {
				q.TryPop()
			}
		},
	} {
		assert.Zero(t, testing.AllocsPerRun(100, f), name)
	}

	values := make(chan int)
	go func() {
		defer close(values)
		for {
			item, err := q.Pop(ctx)
			if err != nil {
				return
			}
			values <- item.Value
		}
	}()
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		q.Push(1, now)
		<-values
	}), "Pop that waits for a Push")
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		q.Push(1, time.Now().Add(time.Microsecond))
		<-values
	}), "Pop that waits for an instant")
	q.Close()
	<-values
}

func TestSchedulerDoesNotAllocate(t *testing.T) {
	for _, workers := range []int{1, 4} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			s := open(t, &heapqueue.Options{Workers: workers})
			var idle schedule.Task = taskFunc(func(schedule.Timer) {})
			assert.Zero(t, testing.AllocsPerRun(1000, func() {
				timer, _ := s.Schedule(time.Hour, idle)
				timer.Reset(2 * time.Hour)
				_, ok := timer.Deadline()
				assert.True(t, ok)
				timer.Stop()
				timer.StopAndWait()
				s.Stats()
			}), "Schedule, Reset, Deadline, Stop, StopAndWait, Stats")

			ran := make(chan struct{}, manyDue)
			var send schedule.Task = taskFunc(func(schedule.Timer) { ran <- struct{}{} })
			assert.Zero(t, testing.AllocsPerRun(100, func() {
				s.Schedule(time.Microsecond, send)
				<-ran
			}), "Schedule and Run")
			assert.Zero(t, testing.AllocsPerRun(100, func() {
				for range manyDue {
					s.Schedule(0, send)
				}
				for range manyDue {
					<-ran
				}
			}), "Schedule and Run of several batches")

			rearm := at(t, s, 0, func(self schedule.Timer) {
				select {
				case ran <- struct{}{}:
				default:
				}
				self.Reset(time.Microsecond)
			})
			assert.Zero(t, testing.AllocsPerRun(100, func() { <-ran }), "Reset during Run")
			rearm.StopAndWait()
		})
	}
}
