// The interface to a timer engine, and the list of peers.

package main

import (
	"fmt"
	"slices"
	"time"
)

// engine is how the harness uses a peer. H is the peer's handle of a timer. The
// harness calls all peers through this interface, so all pay for the same call.
// Callbacks have the form that suits the peer, and each allocates at most one
// object.
type engine[H any] interface {
	// noop schedules a timer whose callback does nothing.
	noop(d time.Duration) H
	// stop cancels a pending timer.
	stop(h H)
	// reset moves a pending timer. Peers without such a method stop it and schedule
	// another.
	reset(h H, d time.Duration) H
	// fire schedules a timer whose callback calls recordFire(due).
	fire(d time.Duration, due int64)
	// every calls recordPeriodic each period from now on: with the peer's periodic
	// timers, or with a callback that schedules its timer again.
	every(period time.Duration)
	// call schedules a timer whose callback calls f.
	call(d time.Duration, f func())
	close()
}

// peer is one of the engines that are measured.
type peer struct {
	name  string
	title string
	ticks []time.Duration // the ticks that it supports; none if it has no tick
	run   func(s spec) (values, error)
}

// The ticks of the rows.
const (
	fineTick   = time.Millisecond
	coarseTick = 10 * time.Millisecond
)

var bothTicks = []time.Duration{fineTick, coarseTick}

// peers are the engines that run in a Go process. See netty.go for Netty.
var peers = []peer{
	{name: "wheel", title: "wheel", ticks: bothTicks, run: runOn(newWheel)},
	{name: "wheel-go", title: "wheel, schedule.AfterFunc", ticks: bothTicks, run: runOn(newGoWheel)},
	{name: "heap", title: "heapqueue", run: runOn(newHeap)},
	{name: "std", title: "time.AfterFunc", run: runOn(newStd)},
	{name: "antlabs", title: "antlabs/timer", ticks: []time.Duration{coarseTick}, run: runOn(newAntlabs)},
	{name: "russellluo", title: "RussellLuo/timingwheel", ticks: bothTicks, run: runOn(newRussellLuo)},
	{name: "containerheap", title: "container/heap", run: runOn(newContainerHeap)},
}

const netty = "netty"

// isOurs reports whether a peer is an engine of this module.
func isOurs(name string) bool { return slices.Contains([]string{"wheel", "wheel-go", "heap"}, name) }

// peerNamed finds a Go peer.
func peerNamed(name string) (peer, error) {
	for _, p := range peers {
		if p.name == name {
			return p, nil
		}
	}
	return peer{}, fmt.Errorf("unknown peer %q", name)
}

// titleOf returns the name of a peer in tables.
func titleOf(name string) string {
	if name == netty {
		return "Netty HashedWheelTimer"
	}
	p, err := peerNamed(name)
	if err != nil {
		return name
	}
	return p.title
}

// hasTick reports whether a peer can run with a tick. A peer without ticks runs with
// any.
func hasTick(name string, tick time.Duration) bool {
	if name == netty || tick == 0 {
		return true
	}
	p, err := peerNamed(name)
	return err == nil && (len(p.ticks) == 0 || slices.Contains(p.ticks, tick))
}
