// The report of a Check.

package redisstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
)

// Severity says how much a [Finding] matters to locks.
type Severity string

// The severities, from the least.
const (
	SeverityNote     Severity = "note"      // worth knowing; no lock is at risk
	SeverityNotKnown Severity = "not known" // the server did not tell, so it may be unsafe
	SeverityWarning  Severity = "warning"   // a fault, such as a restart, can cost locks
	SeverityUnsafe   Severity = "unsafe"    // locks can be lost or held twice without a fault, or cannot be acquired
)

// rank orders the severities; the worst is the highest.
func (s Severity) rank() int {
	return slices.Index([]Severity{SeverityNote, SeverityNotKnown, SeverityWarning, SeverityUnsafe}, s)
}

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
	fmt.Fprintf(&b, "%s, TTL %v: %s%d unsafe, %s, %d not known, %s", plural(len(r.Servers), "server"), r.TTL, unread,
		count[SeverityUnsafe], plural(count[SeverityWarning], "warning"), count[SeverityNotKnown], plural(count[SeverityNote], "note"))
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
		facts = append(facts, plural(s.Replicas, "replica"))
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

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// sortFindings puts the worst findings first. Findings of one severity keep their order.
func sortFindings(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int { return cmp.Compare(b.Severity.rank(), a.Severity.rank()) })
}
