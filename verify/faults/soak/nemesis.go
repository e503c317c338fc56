// The faults of a soak, which cost no lease if they occur alone.

package soak

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

// fault is a fault that costs no lease if it occurs alone.
type fault struct {
	name string
	do   func() error
}

// nemesis returns all faults in the order in which they occur. Faults that make renewals
// fail come first.
func (s *soak) nemesis() []fault {
	ctx := context.Background()
	return []fault{
		{"server killed", func() error {
			s.server.Kill()
			time.Sleep(min(s.fault, time.Second)) // loading the data takes at least as long again
			return s.server.Restart()
		}},
		{"connections reset", func() error {
			s.proxy.Reset()
			return nil
		}},
		{"clients killed", func() error {
			return s.admin.Do(ctx, "CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES").Err()
		}},
		{"scripts flushed", func() error { return s.admin.ScriptFlush(ctx).Err() }},
		{"server stopped", func() error {
			if err := s.server.Stop(); err != nil {
				return err
			}
			time.Sleep(s.fault)
			return s.server.Cont()
		}},
		{"silence", func() error {
			s.proxy.Block()
			time.Sleep(s.fault)
			s.proxy.Unblock()
			return nil
		}},
		{"garbage collected", func() error {
			collectGarbage(s.fault)
			return nil
		}},
	}
}

// collectGarbage keeps the garbage collector running for length.
func collectGarbage(length time.Duration) {
	const percent, size = 5, 1 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(percent))
	var garbage [16][]byte
	for i, end := 0, time.Now().Add(length); time.Now().Before(end); i++ {
		garbage[i%len(garbage)] = make([]byte, size)
		time.Sleep(time.Millisecond)
	}
	runtime.KeepAlive(&garbage)
}
