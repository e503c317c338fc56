package main

import (
	"fmt"
	"time"
)

// engine is a peer as the harness sees it; H is its handle of a timer. Its methods
// are called through one table per peer, the same for all. Callbacks are given the
// form that suits the peer, and each is one object on the heap at most.
type engine[H any] interface {
	// nop arms a timer whose callback does nothing.
	nop(d time.Duration) H
	// stop cancels a pending timer.
	stop(h H)
	// reset moves a pending timer, by stop and nop if the peer knows no better.
	reset(h H, d time.Duration) H
	// fire arms a timer whose callback calls arrived(due).
	fire(d time.Duration, due int64)
	// every arms a timer whose callback calls beat and that fires each period from
	// now on: by the peer's own means if it has such, else armed by the callback.
	every(period time.Duration)
	close()
}

// peer is one of those measured.
type peer struct {
	name  string
	title string
	ticks []time.Duration // those that it can be set to; none if it has no tick
	aside bool            // seldom decides a goal: measured in one round, and not with -quick
	run   func(s spec) (values, error)
}

// The ticks of the rows.
const (
	fineTick   = time.Millisecond
	coarseTick = 10 * time.Millisecond
)

var bothTicks = []time.Duration{fineTick, coarseTick}

// peers are all that run in a Go process. Netty is apart, see jvm.go.
var peers = []peer{
	{name: "wheel", title: "wheel", ticks: bothTicks, run: runOn(newWheel)},
	{name: "wheel-go", title: "wheel, schedule.AfterFunc", ticks: bothTicks, aside: true, run: runOn(newWheelGo)},
	{name: "heap", title: "heapqueue", run: runOn(newHeap)},
	{name: "std", title: "time.AfterFunc", run: runOn(newStd)},
	{name: "antlabs", title: "antlabs/timer", ticks: []time.Duration{coarseTick}, run: runOn(newAntlabs)},
	{name: "russellluo", title: "RussellLuo/timingwheel", ticks: bothTicks, run: runOn(newRussellLuo)},
	{name: "rfyiamcool", title: "rfyiamcool/go-timewheel", ticks: bothTicks, aside: true, run: runOn(newRfyiamcool)},
	{name: "textbook", title: "container/heap", run: runOn(newTextbook)},
	{name: "harness", title: "the harness alone", aside: true, run: runOn(newHarness)},
}

const netty = "netty"

// peerNamed finds a Go peer.
func peerNamed(name string) (peer, error) {
	for _, p := range peers {
		if p.name == name {
			return p, nil
		}
	}
	return peer{}, fmt.Errorf("no peer %q", name)
}

// titleOf returns what a peer is called in tables.
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

// aside tells whether a peer is measured in one round only.
func aside(name string) bool {
	p, err := peerNamed(name)
	return err == nil && p.aside
}

// suits tells whether a peer can run with that tick. A peer without ticks suits
// all.
func suits(name string, tick time.Duration) bool {
	if name == netty || tick == 0 {
		return true
	}
	p, err := peerNamed(name)
	if err != nil {
		return false
	}
	for _, t := range p.ticks {
		if t == tick {
			return true
		}
	}
	return len(p.ticks) == 0
}
