// Check, which looks for unsafe settings and missing rights of a server, and its report.

package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redischeck"
)

// CheckOptions configure a [Store.Check]. A nil *CheckOptions and zero fields mean the
// defaults.
type CheckOptions struct {
	// TTL is the shortest TTL of the locks that the store will keep. Round trips and the
	// timeouts of a cluster are compared with it. Default 30 s.
	TTL time.Duration
}

const defaultCheckTTL = 30 * time.Second

// Check looks for settings and rights of the server that are unsafe for locks. In a cluster
// it looks at each master. Call it when a program starts, or by hand: it takes some thirty
// round trips to each server.
//
// The report states what the server answered, what that means for locks and what to do. What
// Check cannot see, because the user may not call INFO or CONFIG or because a hosted service
// does not have them, is a finding that is SeverityNotKnown. A user with the rights of the package
// comment needs +info and +config|get (+config before Redis 7) so that Check sees everything.
//
// Check writes no key. It tries the commands of the store on a key that does not exist, in
// forms that change nothing. It publishes two messages at most, to itself. A refused command may appear in ACL LOG.
//
// Check returns when all servers have answered. A request has no longer than Options.Timeout,
// and a server that does not answer is a finding. The error is that of ctx, driver.ErrStoreClosed,
// or means that no node has named the masters of the cluster; the report has what was seen until
// then, and a finding for each server whose check did not finish. For the stores of a quorum, call Check of each.
func (s *Store) Check(ctx context.Context, o *CheckOptions) (Report, error) {
	var opts CheckOptions
	if o != nil {
		opts = *o
	}
	if opts.TTL == 0 {
		opts.TTL = defaultCheckTTL
	}
	report := Report{TTL: opts.TTL}
	if err := s.check(ctx, &report); err != nil {
		return report, fmt.Errorf("redisstore: check: %w", err)
	}
	return report, nil
}

func (s *Store) check(ctx context.Context, report *Report) error {
	if report.TTL < driver.MinTTL || report.TTL > driver.MaxTTL {
		return fmt.Errorf("%w: CheckOptions.TTL must be %v to %v, got %v", driver.ErrBadTTL, driver.MinTTL, driver.MaxTTL, report.TTL)
	}
	target := redischeck.Target{
		Redis: s.redis, Timeout: s.timeout, Prefix: s.prefix, TTL: report.TTL,
		Replicas: s.replicas.Count, Require: s.replicas.Require, Prove: s.proveAt,
	}
	servers, findings, err := target.Check(ctx)
	for _, c := range servers {
		report.Servers = append(report.Servers, CheckedServer(c))
	}
	for _, f := range findings {
		report.Findings = append(report.Findings, Finding{Severity(f.Severity), f.Code, f.Server, f.Seen, f.Means, f.Do})
	}
	return err
}

// Severity is how much a [Finding] matters to locks.
type Severity string

// The severities, from the least.
const (
	SeverityNote     Severity = redischeck.Note     // worth knowing; no lock is at risk
	SeverityNotKnown Severity = redischeck.NotKnown // the server did not report it, so it may be unsafe
	SeverityWarning  Severity = redischeck.Warning  // a fault, such as a restart, can cost locks
	SeverityUnsafe   Severity = redischeck.Unsafe   // locks can be lost or held twice without a fault, or cannot be acquired
)

// Finding is something that a [Store.Check] has found at one server, or could not see.
type Finding struct {
	Severity Severity `json:"severity"`
	Code     string   `json:"code"`   // does not change between versions; OPERATIONS.md lists the codes
	Server   string   `json:"server"` // the address, as in [CheckedServer]
	Seen     string   `json:"seen"`   // what the server has answered
	Means    string   `json:"means"`  // what that means for locks
	Do       string   `json:"do"`     // what to do about it
}

// CheckedServer has the facts about one server that a [Store.Check] has seen.
type CheckedServer struct {
	Address     string `json:"address"`     // of the form host:port
	Version     string `json:"version"`     // such as "Redis 7.0.15"; "" if not known
	Role        string `json:"role"`        // "master" or "replica"; "" if not known
	Eviction    string `json:"eviction"`    // maxmemory-policy; "" if not known
	Persistence string `json:"persistence"` // "none", "snapshots", or "AOF" with appendfsync; "" if not known
	Replicas    int    `json:"replicas"`    // connected ones; -1 if not known

	// ShardedPubSub is "yes" or "no", or "" if it is not known. The store does not use sharded
	// channels: a cluster forwards each message about a hand-over to all of its nodes.
	ShardedPubSub string `json:"shardedPubSub"`

	RoundTrip      time.Duration `json:"roundTripNs"`      // the median; 0 if not known
	WorstRoundTrip time.Duration `json:"worstRoundTripNs"` // 0 if not known
	ClockOffset    time.Duration `json:"clockOffsetNs"`    // how far the server's clock is ahead of this one
}

// Report is the result of a [Store.Check]. It can be encoded as JSON. It has no secrets.
type Report struct {
	TTL      time.Duration   `json:"ttlNs"` // that the check has assumed
	Servers  []CheckedServer `json:"servers"`
	Findings []Finding       `json:"findings"` // of each server in turn, the worst first
}

// Safe reports whether the check of each server has finished and no finding is SeverityUnsafe. Warnings
// and what is not known do not count.
func (r Report) Safe() bool {
	return len(r.Servers) > 0 && !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == SeverityUnsafe })
}

// String returns the report as text for people, in several lines without a line end.
func (r Report) String() string {
	var b strings.Builder
	count := map[Severity]int{}
	for _, f := range r.Findings {
		count[f.Severity]++
	}
	unread := ""
	if n := len(slices.DeleteFunc(slices.Clone(r.Servers), CheckedServer.read)); n > 0 {
		unread = fmt.Sprintf("%d not checked, ", n)
	}
	fmt.Fprintf(&b, "%s, TTL %v: %s%d unsafe, %s, %d not known, %s", redischeck.Plural(len(r.Servers), "server"), r.TTL, unread,
		count[SeverityUnsafe], redischeck.Plural(count[SeverityWarning], "warning"), count[SeverityNotKnown], redischeck.Plural(count[SeverityNote], "note"))
	for _, s := range r.Servers {
		b.WriteString("\n" + s.String())
		for _, f := range r.Findings {
			if f.Server == s.Address {
				b.WriteString("\n" + f.String())
			}
		}
	}
	return b.String()
}

// read reports whether the server has answered a question.
func (s CheckedServer) read() bool { return s.RoundTrip != 0 || s.Version != "" }

// String returns the facts in one line.
func (s CheckedServer) String() string {
	if !s.read() {
		return s.Address + ": not checked"
	}
	facts := []string{
		known("version", s.Version), known("role", s.Role), known("maxmemory-policy", s.Eviction),
		known("persistence", s.Persistence),
	}
	if s.Replicas < 0 {
		facts = append(facts, "replicas not known")
	} else {
		facts = append(facts, redischeck.Plural(s.Replicas, "replica"))
	}
	if s.RoundTrip == 0 {
		facts = append(facts, "round trip not known")
	} else {
		facts = append(facts, fmt.Sprintf("round trip %v, worst %v", basic.Round(s.RoundTrip), basic.Round(s.WorstRoundTrip)),
			fmt.Sprintf("clock %+d ms", s.ClockOffset.Milliseconds()))
	}
	return s.Address + ": " + strings.Join(facts, ", ")
}

// known returns a fact that names itself only if it is not known or would be unclear alone.
func known(name, value string) string {
	switch {
	case value == "":
		return name + " not known"
	case name == "version" || name == "role":
		return value
	}
	return name + " " + value
}

// String returns the finding in three lines.
func (f Finding) String() string {
	return fmt.Sprintf("  %-9s  %s: %s\n             %s\n             %s", f.Severity, f.Code, f.Seen, f.Means, f.Do)
}
