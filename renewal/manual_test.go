package renewal_test

import (
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// manual is an engine that fires its timers when the test calls run, on the goroutine of the
// test.
type manual struct {
	mu    sync.Mutex // guards tasks
	tasks map[uint64]schedule.Task
}

func (m *manual) Schedule(_ time.Duration, task schedule.Task) (schedule.Timer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tasks == nil {
		m.tasks = make(map[uint64]schedule.Task)
	}
	id := uint64(len(m.tasks) + 1)
	m.tasks[id] = task
	return schedule.NewTimer(m, id), nil
}

func (m *manual) ResetTimer(id uint64, _ time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tasks[id] != nil
}

func (m *manual) StopTimer(id uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.tasks[id] != nil
	m.tasks[id] = nil
	return was
}

func (m *manual) AwaitTimer(uint64) {}

func (m *manual) TimerDeadline(uint64) (time.Time, bool) { return time.Time{}, false }

// run fires every timer.
func (m *manual) run() {
	m.mu.Lock()
	tasks := make(map[uint64]schedule.Task, len(m.tasks))
	for id, task := range m.tasks {
		tasks[id] = task
	}
	m.mu.Unlock()
	for id, task := range tasks {
		if task != nil {
			task.Run(schedule.NewTimer(m, id))
		}
	}
}
