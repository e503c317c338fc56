package heapqueue_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
)

// syncBuffer is a buffer that is safe for concurrent use.
type syncBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// Tasks that block all workers while another timer is due are reported while they are still
// running, and again, not more than once a minute, when the duration has doubled.
func TestTasksThatBlockAreReported(t *testing.T) {
	for _, workers := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			var log syncBuffer
			s := open(t, &heapqueue.Options{Workers: workers, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			for range workers {
				at(t, s, time.Second, func(schedule.Timer) { time.Sleep(100 * time.Second) })
			}
			settle(10 * time.Second)
			assert.Empty(t, log.String(), "no timer waits")
			at(t, s, 0, func(schedule.Timer) {})
			settle(900 * time.Millisecond)
			assert.Empty(t, log.String())
			settle(2200 * time.Millisecond)
			assert.Contains(t, log.String(), `level=WARN msg="heapqueue: tasks block all workers, so timers are late" lasts=`)
			assert.Contains(t, log.String(), "task=heapqueue_test.taskFunc")
			assert.Equal(t, 1, strings.Count(log.String(), "msg="))
			settle(65 * time.Second)
			assert.Equal(t, 2, strings.Count(log.String(), "msg="))
			settle(time.Hour)
			assert.Equal(t, 2, strings.Count(log.String(), "msg="), "the tasks have returned")
		})
	}
}

// A free worker, and tasks that return, block nothing.
func TestTasksThatBlockNothingAreNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log syncBuffer
		s := open(t, &heapqueue.Options{Workers: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		at(t, s, 0, func(schedule.Timer) { time.Sleep(time.Minute) })
		for range 3 { // more than the other worker can do in time
			at(t, s, 0, func(self schedule.Timer) {
				time.Sleep(900 * time.Millisecond)
				self.Reset(0)
			})
		}
		settle(50 * time.Second)
		assert.Greater(t, s.Stats().Fired, uint64(50))
		assert.Empty(t, log.String())
	})
}
