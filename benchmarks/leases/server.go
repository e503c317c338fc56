package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// reading is what servers say of themselves.
type reading struct {
	at       time.Time
	cpu      time.Duration // used so far
	renewals int           // since the statistics were reset
	scripts  scriptTimes   // since then
}

// scriptTimes are how long scripts ran, in µs.
type scriptTimes struct{ p50, p99, most float64 }

// reset lets the servers count anew, and have their percentiles end with the
// maximum.
func (s *site) reset(ctx context.Context) error {
	for _, n := range s.nodes {
		if err := n.rdb.ConfigSet(ctx, "latency-tracking-info-percentiles", "50 99 100").Err(); err != nil {
			return fmt.Errorf("a redis-server of version 7 or later is needed: %w", err)
		}
		if err := n.rdb.ConfigResetStat(ctx).Err(); err != nil {
			return err
		}
	}
	return nil
}

// read asks the servers. Of several it returns the sums, and the longest scripts.
func (s *site) read(ctx context.Context) (reading, error) {
	var sum reading
	for _, n := range s.nodes {
		r, err := n.read(ctx)
		if err != nil {
			return sum, err
		}
		sum.at = r.at
		sum.cpu += r.cpu
		sum.renewals += r.renewals
		sum.scripts.p50 = max(sum.scripts.p50, r.scripts.p50)
		sum.scripts.p99 = max(sum.scripts.p99, r.scripts.p99)
		sum.scripts.most = max(sum.scripts.most, r.scripts.most)
	}
	return sum, nil
}

// read asks one server. A renewal is counted where it has its effect: every
// contestant's script gives a key its new end by one PEXPIRE or PEXPIREAT, which
// nothing else here uses.
func (n *node) read(ctx context.Context) (reading, error) {
	info, err := n.rdb.Info(ctx, "cpu", "commandstats", "latencystats").Result()
	if err != nil {
		return reading{}, err
	}
	r := reading{at: time.Now()}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_cpu_sys", "used_cpu_user":
			r.cpu += time.Duration(number(value) * float64(time.Second))
		case "cmdstat_pexpire", "cmdstat_pexpireat":
			r.renewals += int(number(field(value, "calls")))
		case "latency_percentiles_usec_evalsha":
			r.scripts = scriptTimes{number(field(value, "p50")), number(field(value, "p99")), number(field(value, "p100"))}
		}
	}
	return r, nil
}

// version returns the version of the server.
func (n *node) version(ctx context.Context) (string, error) {
	info, err := n.rdb.Info(ctx, "server").Result()
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			return v, err
		}
	}
	return "", err
}

// field returns the value of a name in a list such as a=1,b=2.
func field(list, name string) string {
	for item := range strings.SplitSeq(list, ",") {
		if value, ok := strings.CutPrefix(item, name+"="); ok {
			return value
		}
	}
	return ""
}

func number(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64)
	return f
}
