package soak

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

// fault is something that costs no lease if it comes alone.
type fault struct {
	name string
	do   func() error
}

// troubles are all of them, in the order in which they come: first those by which
// renewals fail.
func (s *soak) troubles() []fault {
	ctx := context.Background()
	return []fault{
		{"server killed", func() error {
			s.server.Kill()
			time.Sleep(min(s.fault, time.Second)) // it takes as long again, and more, to read what it knew
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
			s.proxy.Swallow()
			time.Sleep(s.fault)
			s.proxy.Pass()
			return nil
		}},
		{"garbage collected", func() error {
			collect(s.fault)
			return nil
		}},
	}
}

// collect makes the garbage collector run nearly all the time.
func collect(length time.Duration) {
	const percent, size = 5, 1 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(percent))
	var garbage [16][]byte
	for i, end := 0, time.Now().Add(length); time.Now().Before(end); i++ {
		garbage[i%len(garbage)] = make([]byte, size)
		time.Sleep(time.Millisecond)
	}
	runtime.KeepAlive(&garbage)
}
