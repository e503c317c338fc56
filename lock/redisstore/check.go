// Check, which looks for unsafe settings and missing rights of a server.

package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
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
// The report says what the server answered, what that means for locks and what to do. What
// Check cannot see, because the user may not call INFO or CONFIG or because a hosted service
// does not have them, is a finding that is SeverityNotKnown. A user with the rights of the package
// comment needs +info and +config|get (+config before Redis 7) so that Check sees everything.
//
// Check writes no key. It tries the commands of the store on a key that does not exist, in
// forms that change nothing, or asks ACL DRYRUN if the user may. It publishes two messages at most, to
// itself. A refused command may appear in ACL LOG.
//
// Check returns when all servers have answered. A request has no longer than Options.Timeout,
// and a server that does not answer is a finding. The error is that of ctx, driver.ErrStoreClosed,
// or says that no node has named the masters of the cluster; the report has what was seen until
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
	switch {
	case report.TTL < driver.MinTTL || report.TTL > driver.MaxTTL:
		return fmt.Errorf("%w: CheckOptions.TTL must be %v to %v, got %v", driver.ErrBadTTL, driver.MinTTL, driver.MaxTTL, report.TTL)
	case ctx == nil:
		return rediskit.ErrNilContext
	case s.redis == nil:
		return rediskit.ErrZeroStore
	}
	masters, _, err := s.redis.Masters(ctx, true)
	if len(masters) == 0 {
		return err
	}
	err = nil // of a slot that has no node; see unservedSlots
	checks := make([]*serverCheck, len(masters))
	var wg sync.WaitGroup
	for i, n := range masters {
		checks[i] = &serverCheck{store: s, node: n, ttl: report.TTL}
		wg.Go(func() { checks[i].run(ctx) })
	}
	wg.Wait()
	if s.redis.IsCluster() {
		checks[0].unservedSlots()
	}
	for _, c := range checks {
		err = cmp.Or(err, c.err) // the others have the same reason
		for i := range c.findings {
			c.findings[i].Server = c.facts.Address
		}
		sortFindings(c.findings)
		report.Servers = append(report.Servers, c.facts)
		report.Findings = append(report.Findings, c.findings...)
	}
	return err
}

// serverCheck is the check of one server.
type serverCheck struct {
	store *Store
	node  *redisconn.Node
	ttl   time.Duration

	key     string // does not exist, and the server serves its slot
	channel string // has no subscribers

	facts    CheckedServer
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
	c.facts = CheckedServer{Address: c.node.Addr(), Replicas: -1}
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
		c.add(SeverityUnsafe, "unfinished", err.Error())
		return
	}
	code := "unreachable"
	switch {
	case redisconn.IsRefusedLogin(err):
		code = "login"
	case errors.Is(err, errSentinel):
		code = "sentinel"
	}
	c.add(SeverityUnsafe, code, err.Error())
}

// errSentinel ends the check of a server that is a Sentinel.
var errSentinel = errors.New("the mode of the server is sentinel")

// nameKey sets a key that nobody else uses and whose slot the server serves.
func (c *serverCheck) nameKey() {
	random := rand.Text()
	c.channel = c.store.prefix + random
	for i := 0; ; i++ {
		c.key = c.store.prefix + "{check:" + random + strconv.Itoa(i) + "}"
		// A server of a single slot needs 16,384 tries on average.
		if i > 64*redisconn.SlotCount || c.store.redis.Serving(redisconn.SlotOf(c.key)) == c.node {
			return
		}
	}
}

// do sends commands to the server. It returns an error if the server does not answer, or refuses the login.
func (c *serverCheck) do(ctx context.Context, commands ...*redisconn.Command) error {
	if err := c.store.redis.Do(ctx, c.node, commands...); err != nil {
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
func (c *serverCheck) add(severity Severity, code, seen string) {
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
		if cmp.Or(c.info["redis_mode"], c.info["server_mode"]) == "sentinel" { // the second is Valkey's
			return errSentinel
		}
		c.version = infoVersion(c.info)
	} else {
		c.infoErr = info.Err
		if c.infoErr == nil {
			c.infoErr = rediskit.UnexpectedReply(info.Reply)
		}
	}
	if len(c.store.redis.Addresses()) > 0 || c.store.redis.IsCluster() {
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
