// The resources that a client and its server use.

package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// meter measures the resources that this process, the server and all other processes
// use.
type meter struct {
	rdb     *redis.Client
	usesSet bool // of the candidate
	start   reading
}

// usage holds the resources used between begin and end.
type usage struct {
	Took     time.Duration
	CPU      time.Duration // of this process
	RedisCPU time.Duration
	Commands float64 // commands that lock and unlock, counted by the server
	Others   float64 // cores that other processes used
}

func newMeter(t task) (*meter, error) {
	c, err := findCandidate(t.Candidate)
	return &meter{rdb: redis.NewClient(&redis.Options{Addr: t.Addr}), usesSet: c.usesSet}, err
}

func (m *meter) begin(ctx context.Context) (err error) {
	m.start, err = m.read(ctx)
	return err
}

func (m *meter) end(ctx context.Context) (usage, error) {
	defer func() { _ = m.rdb.Close() }()
	to, err := m.read(ctx)
	u := usage{
		Took:     to.at.Sub(m.start.at),
		CPU:      to.own - m.start.own,
		RedisCPU: to.redis - m.start.redis,
		Commands: to.commands - m.start.commands,
	}
	u.Others = max(0, (to.machine-m.start.machine-u.CPU-u.RedisCPU).Seconds()/u.Took.Seconds())
	return u, err
}

// reading holds the resources used until a time.
type reading struct {
	at                  time.Time
	own, machine, redis time.Duration
	commands            float64 // scripts, and SETs if the candidate uses them
}

func (m *meter) read(ctx context.Context) (reading, error) {
	info, err := m.rdb.Info(ctx, "cpu", "commandstats").Result()
	if err != nil {
		return reading{}, err
	}
	r := reading{at: time.Now()}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_cpu_user", "used_cpu_sys":
			r.redis += time.Duration(number(value) * float64(time.Second))
		case "cmdstat_eval", "cmdstat_evalsha":
			r.commands += calls(value)
		case "cmdstat_set":
			if m.usesSet {
				r.commands += calls(value)
			}
		}
	}
	r.machine, r.own, err = bench.MachineCPU()
	return r, err
}

// calls returns the number of calls in statistics such as calls=1,usec=2.
func calls(stats string) float64 {
	first, _, _ := strings.Cut(stats, ",")
	return number(strings.TrimPrefix(first, "calls="))
}

func number(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64)
	return f
}
