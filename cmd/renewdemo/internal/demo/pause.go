// The fault that pauses the process.

package demo

import (
	"errors"
	"time"
)

// supervisedEnv is set in the environment of a process that has a supervisor to continue it.
const supervisedEnv = "RENEWDEMO_SUPERVISED"

// pauseResult is what the holders found after the pause.
type pauseResult struct {
	resumed time.Time
	valid   int // leases for which Valid was true right after the pause
}

// pauseProcess stops this process until its supervisor continues it. Right after that it asks
// every lease whether it is valid.
func (d *demo) pauseProcess() error {
	began := time.Now()
	if err := stopSelf(); err != nil {
		return err
	}
	// The signal may stop the process a moment after stopSelf has returned. The pause is the
	// first long gap between two looks at the clock.
	last := began
	for now := time.Now(); now.Sub(last) < d.ttl; now = time.Now() {
		if now.Sub(began) > d.pause() {
			return errors.New("the process was not stopped")
		}
		last = now
	}
	d.paused = pauseResult{resumed: time.Now()}
	for _, h := range d.held {
		if h.Valid() {
			d.paused.valid++
		}
	}
	return nil
}
