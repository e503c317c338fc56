// Package redischeck looks for settings and rights of a server that are unsafe for the locks of package redisstore, which documents
// the check.
package redischeck

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// Target is what a check looks at: the servers of a client, as a store uses them.
type Target struct {
	Redis   *redisconn.Client
	Timeout time.Duration // of a request
	Prefix  string        // of the keys and channels
	TTL     time.Duration // with which round trips and the timeouts of a cluster are compared

	Replicas int  // that the store asks for confirmations
	Require  bool // that many must confirm

	// Prove publishes a message as the scripts of the store do, at the node that serves a key.
	Prove func(ctx context.Context, key, channel, message string) error
}

// Server is a redisstore.CheckedServer.
type Server struct {
	Address                                string
	Version, Role, Eviction, Persistence   string
	Replicas                               int
	ShardedPubSub                          string
	RoundTrip, WorstRoundTrip, ClockOffset time.Duration
}

// Finding is a redisstore.Finding.
type Finding struct{ Severity, Code, Server, Seen, Means, Do string }

// The values of a redisstore.Severity.
const (
	Note     = "note"
	NotKnown = "not known"
	Warning  = "warning"
	Unsafe   = "unsafe"
)

// bySeverity has the severities from the least.
var bySeverity = []string{Note, NotKnown, Warning, Unsafe}

// Check checks each server. The findings are those of each server in turn, the worst first. The error states why the check
// is not complete.
func (t *Target) Check(ctx context.Context) (servers []Server, findings []Finding, err error) {
	masters, _, err := t.Redis.Masters(ctx, true)
	if len(masters) == 0 {
		return nil, nil, err
	}
	err = nil // of a slot that has no node; see unservedSlots
	checks := make([]*serverCheck, len(masters))
	var wg sync.WaitGroup
	for i, n := range masters {
		checks[i] = &serverCheck{Target: t, node: n}
		wg.Go(func() { checks[i].run(ctx) })
	}
	wg.Wait()
	if t.Redis.IsCluster() {
		checks[0].unservedSlots()
	}
	for _, c := range checks {
		err = cmp.Or(err, c.err) // the others have the same reason
		for i := range c.findings {
			c.findings[i].Server = c.facts.Address
		}
		slices.SortStableFunc(c.findings, func(a, b Finding) int {
			return cmp.Compare(slices.Index(bySeverity, b.Severity), slices.Index(bySeverity, a.Severity))
		})
		servers, findings = append(servers, c.facts), append(findings, c.findings...)
	}
	return servers, findings, err
}

// serverCheck is the check of one server.
type serverCheck struct {
	*Target
	node *redisconn.Node

	key     string // does not exist, and the server serves its slot
	channel string // has no subscribers

	facts    Server
	findings []Finding
	err      error // why the check was not completed: ctx has ended, or the store is closed

	info     map[string]string // nil: not known
	infoErr  error             // why
	settings map[string]string // of CONFIG GET
	sample   []clockSample
	version  version

	subscribeErr error // why the server does not confirm a subscription
}

// run checks the server. It stops early if the server does not answer.
func (c *serverCheck) run(ctx context.Context) {
	c.facts = Server{Address: c.node.Addr(), Replicas: -1}
	c.nameKey()
	steps := []func(ctx context.Context) error{
		c.readClock, c.readInfo, c.readSettings, c.tryScript, c.trySubscribe, c.tryRights, c.readClock,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			c.fail(ctx, err)
			break
		}
	}
	if c.has("login") || c.has("sentinel") {
		return
	}
	if c.info != nil || c.infoErr != nil {
		c.judge()
	}
	if c.err == nil && !c.has("unreachable") {
		c.judgeClock()
	}
}

// fail notes why the check was not completed.
func (c *serverCheck) fail(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, redisconn.ErrClosed) {
		c.err = err
		c.add(Unsafe, "unfinished", err.Error())
		return
	}
	code := "unreachable"
	switch {
	case redisconn.IsRefusedLogin(err):
		code = "login"
	case errors.Is(err, errSentinel):
		code = "sentinel"
	}
	c.add(Unsafe, code, err.Error())
}

// errSentinel ends the check of a server that is a Sentinel.
var errSentinel = errors.New("the mode of the server is sentinel")

// nameKey sets a key that nobody else uses and whose slot the server serves.
func (c *serverCheck) nameKey() {
	random := rand.Text()
	c.channel = c.Prefix + random
	for i := 0; ; i++ {
		c.key = c.Prefix + "{check:" + random + strconv.Itoa(i) + "}"
		// A server of a single slot needs 16,384 tries on average.
		if i > 64*redisconn.SlotCount || c.Redis.Serving(redisconn.SlotOf(c.key)) == c.node {
			return
		}
	}
}

// do sends commands to the server. It returns an error if the server does not answer, or refuses the login.
func (c *serverCheck) do(ctx context.Context, commands ...*redisconn.Command) error {
	if err := c.Redis.Do(ctx, c.node, commands...); err != nil {
		return err
	}
	for _, command := range commands {
		if command.Err != nil && (!command.Refused || redisconn.IsRefusedLogin(command.Err)) {
			return command.Err
		}
	}
	return nil
}

// add adds a finding.
func (c *serverCheck) add(severity, code, seen string) {
	a := advised[code]
	c.findings = append(c.findings, Finding{Severity: severity, Code: code, Seen: seen, Means: a.means, Do: a.do})
}

// has reports whether there is a finding with a code.
func (c *serverCheck) has(code string) bool {
	for _, f := range c.findings {
		if f.Code == code {
			return true
		}
	}
	return false
}

// readInfo reads INFO, and the server's own address.
func (c *serverCheck) readInfo(ctx context.Context) error {
	info, client := redisconn.NewCommand("info"), redisconn.NewCommand("client", "info")
	if err := c.do(ctx, info, client); err != nil {
		return err
	}
	if text, ok := info.Reply.(string); ok && info.Err == nil {
		c.info = parseLines(text)
		if cmp.Or(c.info["redis_mode"], c.info["server_mode"], c.info["redict_mode"]) == "sentinel" { // Valkey's, Redict's
			return errSentinel
		}
		c.version = infoVersion(c.info)
	} else {
		c.infoErr = info.Err
		if c.infoErr == nil {
			c.infoErr = rediskit.UnexpectedReply(info.Reply)
		}
	}
	if len(c.Redis.Addresses()) > 0 || c.Redis.IsCluster() {
		return nil
	}
	// Sentinel names the master, and only the connection knows its address.
	c.facts.Address = "the master that Sentinel names"
	if text, ok := client.Reply.(string); ok && client.Err == nil {
		for field := range strings.FieldsSeq(text) {
			if addr, ok := strings.CutPrefix(field, "laddr="); ok {
				c.facts.Address = addr
			}
		}
	}
	return nil
}

// settingsRead are the settings that INFO does not show.
var settingsRead = []string{
	"save", "stop-writes-on-bgsave-error", "appendfsync", "min-replicas-to-write",
	"cluster-require-full-coverage", "cluster-node-timeout",
}

// readSettings reads settings by CONFIG GET. A setting that is missing afterwards is not known.
func (c *serverCheck) readSettings(ctx context.Context) error {
	commands := make([]*redisconn.Command, len(settingsRead))
	for i, name := range settingsRead {
		commands[i] = redisconn.NewCommand("config", "get", name)
	}
	if err := c.do(ctx, commands...); err != nil {
		return err
	}
	c.settings = make(map[string]string)
	for _, command := range commands {
		pair, ok := command.Reply.([]any)
		if !ok || len(pair) != 2 {
			continue
		}
		name, okName := pair[0].(string)
		value, okValue := pair[1].(string)
		if okName && okValue {
			c.settings[name] = value
		}
	}
	return nil
}

// parseLines parses lines of the form name:value.
func parseLines(text string) map[string]string {
	values := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(name, "#") {
			values[name] = value
		}
	}
	return values
}

// Plural returns a number and a noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
