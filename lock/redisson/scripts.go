// The Lua scripts, and their replies.

package redisson

import (
	"context"
	"embed"
	"math"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// luaFiles holds the scripts. The header of each file states what it does, its keys, arguments and
// reply, the files that it requires, and a bound of its work.
//
//go:embed lua/*.lua
var luaFiles embed.FS

var (
	acquireScript = newScript("acquire")
	releaseScript = newScript("release")
	renewScript   = newScript("renew")

	fencedRenewScript = newScript("fenced_renew")

	fairAcquireScript = newScript("fair_acquire")
	fairReleaseScript = newScript("fair_release")

	rwAcquireScript = newScript("rw_acquire")
	rwReleaseScript = newScript("rw_release")
	rwRenewScript   = newScript("rw_renew")

	inspectScript = newScript("inspect")
	forceScript   = newScript("force")
)

func newScript(name string) *redisnode.Script {
	return redisnode.NewScript(rediskit.Source(luaFiles, name))
}

// call is a script with its keys and arguments.
type call struct {
	script *redisnode.Script
	keys   []string
	args   []any
}

// run runs a script on the node of its keys, within Options.Timeout. Errors do not show the secret.
func (s *Store) run(ctx context.Context, c call, secret string) (redisconn.Reply, error) {
	args := make([]any, 3, 3+len(c.keys)+len(c.args)) // the client sets the first two
	args[2] = len(c.keys)
	for i := range c.keys {
		args = append(args, &c.keys[i])
	}
	return s.redis.Run(ctx, c.script, secret, append(args, c.args...))
}

// publishCommand returns the command that wakes waiters: PUBLISH or SPUBLISH. On a cluster the first call
// asks the node of the name whether it knows SPUBLISH, unless Options.Sharding settles it.
func (s *Store) publishCommand(ctx context.Context, name string) (string, error) {
	if Sharding(s.sharded.Load()) == ShardingAuto {
		if err := s.probeSharding(ctx, name); err != nil {
			return "", err
		}
	}
	if Sharding(s.sharded.Load()) == ShardingOn {
		return "SPUBLISH", nil
	}
	return "PUBLISH", nil
}

func (s *Store) probeSharding(ctx context.Context, name string) error {
	if s.redis == nil {
		return rediskit.ErrZeroStore
	}
	if err := s.redis.Begin(ctx); err != nil {
		return err
	}
	defer s.redis.End()
	node, err := s.redis.Master(ctx, redisconn.SlotOf(name))
	if err != nil {
		return err
	}
	probe := redisconn.NewCommand("PUBSUB", "SHARDNUMSUB")
	if err := s.redis.Do(ctx, node, probe); err != nil {
		return err
	}
	switch {
	case probe.Err == nil:
		s.sharded.Store(int32(ShardingOn))
	case probe.Refused:
		s.sharded.Store(int32(ShardingOff))
	default:
		return probe.Err
	}
	return nil
}

// Replies are parsed strictly: a reply that differs from the header of its script is an error.
// Errors show only the shape of a reply, because its content may contain an owner.

// verdict is the first element of a reply of an acquire script.
type verdict int64

const (
	tooLong verdict = -2 // the lease of a writer that is to become a reader
	refused verdict = -1
	taken   verdict = 0
	granted verdict = 1
)

// answer is a reply of an acquire script.
type answer struct {
	verdict verdict
	token   uint64        // if granted; 0 if the kind has no tokens
	left    time.Duration // if taken or too long; negative if the lock does not expire
	sent    time.Time     // an instant before the request was sent
}

func parseAnswer(reply redisconn.Reply) (answer, error) {
	items, ok := reply.Value.([]any)
	a := answer{sent: reply.Sent}
	numbers := make([]int64, len(items))
	for i, item := range items {
		var isNumber bool
		numbers[i], isNumber = item.(int64)
		ok = ok && isNumber
	}
	switch {
	case !ok || len(numbers) == 0:
		return answer{}, rediskit.UnexpectedReply(reply.Value)
	case numbers[0] == int64(refused) && len(numbers) == 1:
		a.verdict = refused
	case numbers[0] == int64(granted) && len(numbers) == 2 && numbers[1] >= 0:
		a.verdict, a.token = granted, uint64(numbers[1])
	case (numbers[0] == int64(taken) || numbers[0] == int64(tooLong)) && len(numbers) == 2:
		a.verdict, a.left = verdict(numbers[0]), millis(numbers[1])
	default:
		return answer{}, rediskit.UnexpectedReply(reply.Value)
	}
	return a, nil
}

// millis returns a number of milliseconds as a duration, which is as long as possible if the number
// is too large.
func millis(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// failed returns an error that names the operation that failed.
func failed(verb string, err error) error { return basic.Failed("redisson", verb, err) }
