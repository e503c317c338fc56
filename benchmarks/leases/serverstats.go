// The statistics that servers report.

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// serverStats are the statistics of a server, or of several.
type serverStats struct {
	at       time.Time
	cpu      time.Duration // since the start of the server
	renewals int           // since resetStats
	scripts  scriptTimes   // since resetStats
}

// scriptTimes are the run times of scripts in µs.
type scriptTimes struct{ p50, p99, longest float64 }

// resetStats resets the statistics of the servers. It also sets the percentiles of
// the latencies that they report.
func (s *servers) resetStats(ctx context.Context) error {
	for _, n := range s.nodes {
		if err := n.rdb.ConfigSet(ctx, "latency-tracking-info-percentiles", "50 99 100").Err(); err != nil {
			return fmt.Errorf("redis-server 7 or later required: %w", err)
		}
		if err := n.rdb.ConfigResetStat(ctx).Err(); err != nil {
			return err
		}
	}
	return nil
}

// readStats returns the sums over the servers, and the highest script times.
func (s *servers) readStats(ctx context.Context) (serverStats, error) {
	var sum serverStats
	for _, n := range s.nodes {
		r, err := n.readStats(ctx)
		if err != nil {
			return sum, err
		}
		sum.at = r.at
		sum.cpu += r.cpu
		sum.renewals += r.renewals
		sum.scripts.p50 = max(sum.scripts.p50, r.scripts.p50)
		sum.scripts.p99 = max(sum.scripts.p99, r.scripts.p99)
		sum.scripts.longest = max(sum.scripts.longest, r.scripts.longest)
	}
	return sum, nil
}

// readStats reads the statistics of one server. It counts a renewal by its effect:
// the script of every candidate extends a key by one PEXPIRE or PEXPIREAT, and
// nothing else in this program uses these commands.
func (n *node) readStats(ctx context.Context) (serverStats, error) {
	info, err := n.rdb.Info(ctx, "cpu", "commandstats", "latencystats").Result()
	if err != nil {
		return serverStats{}, err
	}
	r := serverStats{at: time.Now()}
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
