// Delays that the runtime or the machine causes, not an engine.

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// hiccupSleep is how long the meters of hiccups sleep at a time.
const hiccupSleep = time.Millisecond

// hiccups measures what else than an engine delays a probe. Two meters sleep for a millisecond
// again and again, and each keeps its worst lateness. One is a goroutine of this process, so
// it is late whenever the runtime does not run a goroutine whose time has come. The other is a
// process of its own with one thread, so it is late only if the machine has no core for it.
type hiccups struct {
	stop    chan struct{}
	done    sync.WaitGroup
	runtime time.Duration // set before done

	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// startHiccups starts both meters.
func startHiccups() (*hiccups, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &hiccups{stop: make(chan struct{}), process: exec.Command(self, "-hiccups")}
	if h.in, err = h.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.out = bufio.NewReader(out)
	if err := h.process.Start(); err != nil {
		return nil, err
	}
	h.done.Go(func() { h.runtime = worstSleep(h.stop, time.Sleep) })
	return h, nil
}

// end stops the meters and returns their worst lateness in milliseconds.
func (h *hiccups) end() (values, error) {
	close(h.stop)
	h.done.Wait()
	_ = h.in.Close() // the process prints its result then
	line, err := h.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("meter of hiccups: %w", err)
	}
	if err := h.process.Wait(); err != nil {
		return nil, fmt.Errorf("meter of hiccups: %w", err)
	}
	machine, err := time.ParseDuration(strings.TrimSpace(line))
	if err != nil {
		return nil, fmt.Errorf("meter of hiccups: %w", err)
	}
	return values{
		"runtime-hiccup": float64(h.runtime) / float64(time.Millisecond),
		"machine-hiccup": float64(machine) / float64(time.Millisecond),
	}, nil
}

// meterMachine is the main function of the meter that is a process. It ends with its standard
// input.
func meterMachine(in io.Reader, out io.Writer) error {
	runtime.LockOSThread()
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		close(stop)
	}()
	_, err := fmt.Fprintln(out, worstSleep(stop, sleepThread))
	return err
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
