// The rights of the user in a Check.

package redischeck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// rightsGroup is a group of commands that some operations need.
type rightsGroup struct {
	code     string
	severity string // if a command is missing
	forms    []string
}

// rightsNeeded has the commands of the package comment, each in a form that changes nothing if
// KEY does not exist and CHANNEL has no subscribers. The only exception is RPUSH, which is
// tried only where the server refuses its write.
var rightsNeeded = []rightsGroup{
	{"rights-locks", Unsafe, []string{
		"get KEY", "mget KEY", "set KEY 1 XX", "del KEY", "exists KEY", "time", "pttl KEY", "pexpire KEY 1000",
		"llen KEY", "lpop KEY", "lrem KEY 0 1", "zcard KEY", "zscore KEY 1", "zrem KEY 1",
	}},
	{"rights-waiting", Warning, []string{"rpush KEY 1", "lindex KEY 0", "zadd KEY XX 1 1", "zrangebyscore KEY 0 1"}},
	{"rights-messages", Warning, []string{"publish CHANNEL 1"}},
	{"rights-sharing", Warning, []string{
		"zadd KEY XX 1 1", "zcount KEY 0 1", "zrange KEY 0 0", "zrangebyscore KEY 0 1", "zrevrange KEY 0 0", "zscan KEY 0",
		"pexpireat KEY 1000", "hget KEY 1", "hset KEY 1 1 2", "hdel KEY 1", "hlen KEY", "hmget KEY 1", "hscan KEY 0", "unlink KEY",
	}},
	{"rights-inspecting", Note, []string{"lrange KEY 0 0"}},
}

// directRights has the commands that the store sends itself, not in a script. tryInScript tries EVAL, and trySubscribe SUBSCRIBE.
var directRights = []rightsGroup{
	{"rights-locks", Unsafe, []string{"evalsha 0000000000000000000000000000000000000000 1 KEY"}},
	{"rights-messages", Warning, []string{"ping"}},
	{"rights-inspecting", Note, []string{"scan 0"}},
}

// clusterRights has the command that only a cluster needs besides CLUSTER SLOTS, without which
// no node is known. ASKING lasts for one command.
var clusterRights = rightsGroup{"rights-cluster", Warning, []string{"asking", "time"}}

// replicaRights has the command that only Options.Replicas needs.
var replicaRights = rightsGroup{"rights-replicas", Unsafe, []string{"wait 0 1"}}

// explainingRights has the command that Store.ReportEvents and Store.List need to notice that
// another server process answers. readInfo has called it.
var explainingRights = rightsGroup{"rights-explaining", Warning, []string{"info"}}

// trySubscribe finds out whether the server confirms a subscription, on a connection of its own, and delivers a message of a
// script. A proxy may have no messages.
func (c *serverCheck) trySubscribe(ctx context.Context) error {
	bounded, cancel := context.WithTimeoutCause(ctx, c.Timeout, driver.NoAnswerError(c.Timeout))
	defer cancel()
	noScript := c.has("no-script")
	var refused atomic.Bool
	_, err := redisnode.CallUser(bounded, c.Redis.Calls, func() (any, error) { // go-redis does not end with its ctx
		ps, _ := c.Redis.Subscribe(bounded, c.node)
		defer func() { _ = ps.Close() }()
		if err := ps.Subscribe(bounded, c.channel); err != nil {
			return nil, err
		}
		if _, err := ps.ReceiveTimeout(bounded, c.Timeout); err != nil || noScript {
			return nil, err
		}
		if err := c.Prove(bounded, c.key, c.channel, "check"); err != nil {
			refused.Store(true)
			return nil, err
		}
		if _, err := ps.ReceiveTimeout(bounded, c.Timeout/2); err != nil {
			return nil, fmt.Errorf("a message of a script does not arrive: %w", err)
		}
		return nil, nil
	})
	if bounded.Err() != nil && ctx.Err() == nil {
		err = context.Cause(bounded)
	}
	if err == nil || refused.Load() {
		return nil // tryRights names a command that is refused
	}
	c.subscribeErr = c.Redis.Explain(ctx, err)
	if ctx.Err() != nil || errors.Is(c.subscribeErr, redisconn.ErrClosed) {
		return c.subscribeErr
	}
	c.add(Warning, "no-messages", "subscribe: "+c.subscribeErr.Error())
	return nil
}

// tryRights adds findings about the commands that the user may not call.
func (c *serverCheck) tryRights(ctx context.Context) error {
	if c.has("no-script") {
		return nil
	}
	refused := make(map[string][]string) // by code
	if err := c.tryCommands(ctx, refused); err != nil {
		return err
	}
	if c.infoErr != nil {
		if why := redisconn.Refusal(c.infoErr.Error()); why != "" {
			refused[explainingRights.code] = []string{"info: " + why}
		}
	}
	for _, g := range slices.Concat(rightsNeeded, []rightsGroup{clusterRights, replicaRights, explainingRights}) {
		if list := refused[g.code]; len(list) > 0 {
			c.add(g.severity, g.code, strings.Join(list, "; "))
			last := &c.findings[len(c.findings)-1]
			last.Do = c.allow(list)
			if g.code == replicaRights.code {
				last.Do += ", or leave Options.Replicas empty"
			}
		}
	}
	return c.tryWrite(ctx)
}

// allow returns what to do about a list of refused commands: the line that gives a user these rights. No line of an ACL
// brings a command that the server does not have.
func (c *serverCheck) allow(list []string) string {
	line := "ACL SETUSER name ~" + c.Prefix + "* &" + c.Prefix + "*"
	var missing []string
	for _, entry := range list {
		name, why, _ := strings.Cut(entry, ": ")
		if why == redisconn.UnknownCommand {
			missing = append(missing, name)
		}
		line += " +" + name
	}
	if len(missing) > 0 {
		return "Restore the commands, which rename-command has removed or a proxy does not pass on: " + strings.Join(missing, ", ") + "."
	}
	return line
}

// tryCommands tries each command.
func (c *serverCheck) tryCommands(ctx context.Context, refused map[string][]string) error {
	note := func(code, name string, err error) {
		if err == nil {
			return
		}
		if why := redisconn.Refusal(err.Error()); why != "" {
			refused[code] = append(refused[code], name+": "+why)
		}
	}
	groups := slices.Clone(directRights)
	if c.Redis.IsCluster() {
		groups = append(groups, clusterRights)
	}
	if c.Replicas > 0 {
		groups = append(groups, replicaRights)
	}
	var commands []*redisconn.Command
	var codes []string
	for _, g := range groups {
		for _, form := range g.forms {
			var args []any
			for word := range strings.FieldsSeq(form) {
				if word == "KEY" {
					word = c.key
				}
				args = append(args, word)
			}
			commands, codes = append(commands, redisconn.NewCommand(args...)), append(codes, g.code)
		}
	}
	if err := c.do(ctx, commands...); err != nil {
		return err
	}
	for i, command := range commands {
		note(codes[i], command.Args[0].(string), command.Err)
	}
	note("rights-messages", "subscribe", c.subscribeErr)
	return c.tryInScript(ctx, note)
}

// trySource is a script that tries commands and returns their errors, "" for none.
//
// KEYS 1 a key that does not exist
// ARGV 1 a channel without subscribers
//
//	2 ... the commands
const trySource = `local filled = {KEY = KEYS[1], CHANNEL = ARGV[1]}
local errors = {}
for i = 2, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '%S+') do
    words[#words + 1] = filled[word] or word
  end
  local reply = redis.pcall(unpack(words))
  errors[i - 1] = type(reply) == 'table' and reply.err or ''
end
return errors`

// readOnlyHeader makes a server refuse all writes of a script. It checks the rights before.
// Servers before Redis 7 do not know it.
const readOnlyHeader = "#!lua flags=no-writes\n"

// tryInScript tries the commands of the scripts.
func (c *serverCheck) tryInScript(ctx context.Context, note func(code, name string, err error)) error {
	var codes, forms []string
	for _, g := range rightsNeeded {
		for _, form := range g.forms {
			codes, forms = append(codes, g.code), append(forms, form)
		}
	}
	command := c.tryScriptOf(readOnlyHeader+trySource, forms)
	if err := c.do(ctx, command); err != nil {
		return err
	}
	if command.Err != nil && redisconn.Refusal(command.Err.Error()) == "" { // the server does not know the header
		kept := 0
		for i, form := range forms {
			if nameOf(form) != "rpush" {
				codes[kept], forms[kept] = codes[i], form
				kept++
			}
		}
		codes, forms = codes[:kept], forms[:kept]
		command = c.tryScriptOf(trySource, forms)
		if err := c.do(ctx, command); err != nil {
			return err
		}
	}
	switch {
	case command.Err != nil && redisconn.Refusal(command.Err.Error()) != "":
		note("rights-locks", "eval", command.Err)
		return nil
	case command.Err != nil:
		c.add(NotKnown, "rights-locks", command.Err.Error())
		return nil
	}
	answers, ok := command.Reply.([]any)
	if !ok || len(answers) != len(forms) {
		return rediskit.UnexpectedReply(command.Reply)
	}
	for i, answer := range answers {
		if text, _ := answer.(string); text != "" {
			note(codes[i], nameOf(forms[i]), errors.New(text))
		}
	}
	return nil
}

// tryScriptOf returns the command that tries forms in a script.
func (c *serverCheck) tryScriptOf(source string, forms []string) *redisconn.Command {
	args := []any{"eval", source, 1, c.key, c.channel}
	for _, form := range forms {
		args = append(args, form)
	}
	return redisconn.NewCommand(args...)
}

// writeSource is a script that tries a write that changes nothing, because the key does not
// exist, and returns its error.
const writeSource = `local reply = redis.pcall('SET', KEYS[1], '1', 'XX')
if type(reply) == 'table' and reply.err then
  return reply
end
return 1`

// tryWrite finds out whether the server refuses writes: a replica, a full memory, a disk error,
// too few replicas.
func (c *serverCheck) tryWrite(ctx context.Context) error {
	command := redisconn.NewCommand("eval", writeSource, 1, c.key)
	if err := c.do(ctx, command); err != nil {
		return err
	}
	switch {
	case command.Err == nil || redisconn.Refusal(command.Err.Error()) != "":
	case isReadOnly(command.Err.Error()):
		if c.info["role"] == "" { // otherwise judgeRole reports it
			c.add(Unsafe, "replica", command.Err.Error())
		}
	default:
		c.add(Unsafe, "write-refused", command.Err.Error())
	}
	return nil
}

// nameOf returns the command of a form.
func nameOf(form string) string {
	name, _, _ := strings.Cut(form, " ")
	return name
}
