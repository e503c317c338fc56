// The signals that the program catches.

package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
)

// signals are the signals that the program has caught. One goroutine at a time takes them.
type signals struct {
	c     chan os.Signal
	child chan os.Signal // has a signal if a child has changed its state
}

// catchSignals begins to catch the signals that end a program or that a command may use. A
// signal that was ignored when the program started, as after nohup, stays ignored, also for
// the command.
func catchSignals() *signals {
	s := &signals{make(chan os.Signal, 64), make(chan os.Signal, 1)}
	catchChildren(s.child)
	for _, sig := range endSignals {
		if !signal.Ignored(sig) {
			signal.Notify(s.c, sig)
		}
	}
	return s
}

// catchMore also catches the signals that matter only while a command runs.
func (s *signals) catchMore() {
	if len(runSignals) > 0 {
		signal.Notify(s.c, runSignals...)
	}
}

// catchLess undoes catchMore.
func (s *signals) catchLess() {
	if len(runSignals) > 0 {
		signal.Reset(runSignals...)
	}
}

// stop ends the catching.
func (s *signals) stop() {
	signal.Stop(s.c)
	signal.Stop(s.child)
}

// during calls f and returns its error. If a signal comes that ends a program, the ctx of f ends,
// and during returns a signalError when f has returned. The other result of f still counts.
func (s *signals) during(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var err error // of f, set before ended is closed
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = f(ctx)
	}()
	for {
		select {
		case <-ended:
			return err
		case <-s.child:
			reapOrphans()
		case sig := <-s.c:
			if !ends(sig) {
				continue
			}
			cancel(signalError{sig})
			<-ended
			return signalError{sig}
		}
	}
}

func ends(sig os.Signal) bool { return slices.Contains(endSignals, sig) }
