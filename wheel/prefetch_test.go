//go:build unix

package wheel_test

import (
	"syscall"
	"testing"
	"testing/synctest"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// ran counts the Runs of the tasks below, which have no memory of their own.
var ran int

type (
	handleTask  struct{ p unsafe.Pointer } // for example a handle of a C library
	opaqueTask  struct{ _ [8]int }
	funcTask    func()
	intTask     int
	nothingTask struct{}
)

func (handleTask) Run(schedule.Timer)  { ran++ }
func (*opaqueTask) Run(schedule.Timer) { ran++ }
func (funcTask) Run(schedule.Timer)    { ran++ }
func (intTask) Run(schedule.Timer)     { ran++ }
func (nothingTask) Run(schedule.Timer) { ran++ }

var global struct{}

// The wheel does not read the memory that a task points to. It may be unreadable or nil, and
// a type of size zero has none. With go test -asan such a read fails.
func TestTheMemoryOfATaskIsNotRead(t *testing.T) {
	unreadable, err := syscall.Mmap(-1, 0, syscall.Getpagesize(), syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, syscall.Munmap(unreadable)) })
	p := unsafe.Pointer(unsafe.SliceData(unreadable))
	tasks := []schedule.Task{
		handleTask{p},
		(*opaqueTask)(p), (*opaqueTask)(nil),
		handleTask{},
		funcTask(nil), funcTask(func() {}),
		intTask(0), intTask(1 << 30),
		nothingTask{},
		(*nothingTask)(&global), new(nothingTask),
	}
	for _, withExecutor := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := wheel.Options{}
			if withExecutor {
				o.Executor = func(run func()) { run() }
			}
			w, err := wheel.New(&o)
			require.NoError(t, err)
			ran = 0
			for _, task := range tasks {
				_, err := w.Schedule(0, task)
				require.NoError(t, err)
			}
			advance(w.Tick())
			assert.Empty(t, w.Close())
			assert.Equal(t, len(tasks), ran)
		})
	}
}
