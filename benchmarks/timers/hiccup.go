// Delays that the runtime or the machine causes, not an engine.

package main

import (
	"maps"
	"runtime"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// hiccupSleep is how long the meters of hiccups sleep at a time.
const hiccupSleep = time.Millisecond

// hiccups measures what else than an engine delays a probe. Two meters sleep for a millisecond
// again and again, and each keeps its worst lateness. One is a goroutine of this process, so
// it is late whenever the runtime does not run a goroutine whose time has come. The other is a
// thread of a child, so it is late only if the machine has no core for it.
type hiccups struct {
	stop    chan struct{}
	done    sync.WaitGroup
	runtime time.Duration // set before done
	machine *bench.Process
}

// startHiccups starts both meters.
func startHiccups() (*hiccups, error) {
	machine, err := bench.Start(task{Hiccups: true})
	if err != nil {
		return nil, err
	}
	h := &hiccups{stop: make(chan struct{}), machine: machine}
	h.done.Go(func() { h.runtime = worstSleep(h.stop, time.Sleep) })
	return h, nil
}

// end stops the meters and returns their worst lateness in milliseconds.
func (h *hiccups) end() (values, error) {
	close(h.stop)
	h.done.Wait()
	defer h.machine.Kill()
	v := values{"runtime-hiccup": float64(h.runtime) / float64(time.Millisecond)}
	machine, err := h.machine.Call("end")
	maps.Copy(v, machine)
	return v, err
}

// meterMachine starts the meter of a child. The returned function ends it.
func meterMachine() func(string) (values, error) {
	stop, worst := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		worst <- worstSleep(stop, sleepThread)
	}()
	return func(string) (values, error) {
		close(stop)
		return values{"machine-hiccup": float64(<-worst) / float64(time.Millisecond)}, nil
	}
}

// worstSleep sleeps for hiccupSleep again and again until stop is closed. It returns by how
// much the longest sleep was too long.
func worstSleep(stop <-chan struct{}, sleep func(time.Duration)) time.Duration {
	var worst time.Duration
	for {
		select {
		case <-stop:
			return worst
		default:
		}
		before := time.Now()
		sleep(hiccupSleep)
		worst = max(worst, time.Since(before)-hiccupSleep)
	}
}
