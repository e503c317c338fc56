package model

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

const (
	tickMs   = 100_000    // so long that the time a command takes is nothing
	memoryMs = 10_000_000 // for which the last token is remembered
	oldUs    = 3_600e6    // how far the tokens of a state lie back
	aheadUs  = 1_000e6    // how far the last one lies ahead, if it does
	keyLock  = "lw:{n}"
	keyTomb  = keyLock + ":x:"
	channels = "lw:*"
	endMark  = "end"
)

// bridge executes the operations of the model with the scripts that are in use, on
// a real server.
type bridge struct {
	ctx     context.Context
	rdb     *redis.Client
	signals *redis.PubSub

	acquire, renew, release, force string // the digests of the scripts
}

func newBridge(t *testing.T) *bridge {
	b := &bridge{ctx: t.Context(), rdb: shared.Server(t).Client(t)}
	source := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", "lock", "redisstore", "lua", name+".lua"))
		require.NoError(t, err)
		return string(text)
	}
	load := func(script string) string {
		digest, err := b.rdb.ScriptLoad(b.ctx, script).Result()
		require.NoError(t, err)
		return digest
	}
	tokens, queue := source("tokens"), source("queue")
	b.acquire = load(tokens + source("acquire_free") + queue + source("acquire"))
	b.release = load(source("release_free") + tokens + queue + source("release"))
	b.force, b.renew = load(tokens+queue+source("force")), load(source("renew"))
	b.signals = b.rdb.PSubscribe(b.ctx, channels)
	t.Cleanup(func() { b.signals.Close() })
	_, err := b.signals.Receive(b.ctx)
	require.NoError(t, err)
	return b
}

// operation is one that the server can be asked for.
type operation struct {
	kind  Kind // NoRequest stands for FORCE
	owner int
	place uint8 // of an ACQUIRE
	token uint8 // of a RENEW or FORCE
	tomb  bool  // of a RELEASE
}

func (op operation) String() string {
	switch op.kind {
	case Acquire:
		return fmt.Sprintf("ACQUIRE of %s, place %d", name(op.owner), op.place)
	case Renew:
		return fmt.Sprintf("RENEW of %s, token %d", name(op.owner), op.token)
	case Release:
		return fmt.Sprintf("RELEASE of %s, tombstone %v", name(op.owner), op.tomb)
	}
	return fmt.Sprintf("FORCE of token %d", op.token)
}

// run does an operation on the model's server.
func (op operation) run(x Scripts, v *Server) (Reply, Effects) {
	switch op.kind {
	case Acquire:
		return x.Acquire(v, op.owner, op.place)
	case Renew:
		return x.Renew(v, op.owner, op.token), Effects{Granted: nobody, Forced: nobody}
	case Release:
		return x.Release(v, op.owner, op.tomb)
	}
	return x.Force(v, op.token)
}

// outcome is what can be seen of an operation: the answer, the signals, and all
// that the server has then.
type outcome struct {
	answer  string
	signals []string
	keys    []string
}

func (o outcome) String() string {
	return fmt.Sprintf("answer %s, signals %v, keys %v", o.answer, o.signals, o.keys)
}

// tokens translates between the tokens of a state and real ones.
type tokens struct {
	base  int64 // the real one of 0
	fresh uint8 // the one that the clock gives
	ahead bool  // the last one is ahead of the clock
}

func (k tokens) real(token uint8, last bool) int64 {
	if last && k.ahead {
		return k.base + oldUs + aheadUs
	}
	return k.base + int64(token)
}

func ownerOf(i int) string { return "client" + name(i) + ":1" }

// expect is what the model makes of an operation.
func (x Scripts) expect(v Server, op operation, k tokens) outcome {
	x.Clock = k.fresh
	if k.ahead {
		x.Clock = 1
	}
	last := v.Last
	reply, eff := op.run(x, &v)
	text := func(token uint8) string {
		switch {
		case k.ahead && token == last+1:
			return "last+1"
		case token == k.fresh && !k.ahead:
			return "now"
		default:
			return fmt.Sprint(token)
		}
	}
	var o outcome
	switch reply.Code {
	case Refused:
		o.answer = "-1"
	case Granted:
		o.answer = "1 " + text(reply.Token)
	case Queued:
		head := 0
		if reply.Head {
			head = 1
		}
		o.answer = fmt.Sprintf("0 %s %d %d", text(reply.Token), reply.Left, head)
	case Renewed:
		o.answer = ""
	case NotHeld, HadLock:
		o.answer = "1"
	case HadPlace:
		o.answer = "2"
	default:
		o.answer = "0"
	}
	if eff.Signal {
		o.signals = append(o.signals, fmt.Sprintf("client%s %s %s", name(eff.Granted), ownerOf(eff.Granted), text(v.Token)))
	}
	if eff.Forced != nobody {
		o.signals = append(o.signals, fmt.Sprintf("client%s %s 0", name(eff.Forced), ownerOf(eff.Forced)))
	}
	o.keys = x.keys(&v, text, last)
	return o
}

// keys lists what a server has.
func (x Scripts) keys(v *Server, text func(uint8) string, last uint8) []string {
	var keys []string
	if h := v.holder(); h != nobody {
		keys = append(keys, fmt.Sprintf("lock %s %s for %d", ownerOf(h), text(v.Token), v.Left))
	}
	if v.Last > 0 {
		shown := text(v.Last)
		if v.Last == last {
			shown = "as before"
		}
		keys = append(keys, "last "+shown)
	}
	for turn := range x.Owners {
		for i := range v.Seats {
			if int(v.Seats[i].Turn) == turn+1 {
				keys = append(keys, "turn "+ownerOf(i))
			}
		}
	}
	for i := range v.Seats {
		if place := v.Seats[i].Place; place > 0 {
			keys = append(keys, fmt.Sprintf("place %s for %d", ownerOf(i), place-1))
		}
		if v.Seats[i].Tomb > 0 {
			keys = append(keys, fmt.Sprintf("tombstone %s for %d", ownerOf(i), v.Seats[i].Tomb))
		}
	}
	if v.first() != nobody {
		keys = append(keys, fmt.Sprintf("queue for %d", v.QueueLeft))
	}
	return keys
}

// put writes a state of the model to the server.
func (b *bridge) put(p redis.Pipeliner, v *Server, k tokens, nowMs int64) {
	p.FlushAll(b.ctx)
	ms := func(left uint8) time.Duration { return time.Duration(left) * tickMs * time.Millisecond }
	if h := v.holder(); h != nobody {
		p.Set(b.ctx, keyLock, fmt.Sprintf("%s %d", ownerOf(h), k.real(v.Token, v.Token == v.Last)), ms(v.Left))
	}
	if v.Last > 0 {
		p.Set(b.ctx, keyLock+":t", k.real(v.Last, true), memoryMs*time.Millisecond)
	}
	for turn := range uint8(MaxOwners) {
		for i := range v.Seats {
			if v.Seats[i].Turn == turn+1 {
				p.RPush(b.ctx, keyLock+":q", ownerOf(i))
			}
		}
	}
	for i := range v.Seats {
		if place := int64(v.Seats[i].Place); place > 0 {
			ends := nowMs + (place-1)*tickMs
			if place == 1 {
				ends = nowMs - tickMs/4
			}
			p.ZAdd(b.ctx, keyLock+":w", redis.Z{Score: float64(ends), Member: ownerOf(i)})
		}
		if v.Seats[i].Tomb > 0 {
			p.Set(b.ctx, keyTomb+ownerOf(i), 1, ms(v.Seats[i].Tomb))
		}
	}
	const more = tickMs / 4 * time.Millisecond // for what equals a bound, to the tick, must not be below it
	p.PExpire(b.ctx, keyLock+":q", ms(v.QueueLeft)+more)
	p.PExpire(b.ctx, keyLock+":w", ms(v.QueueLeft)+more)
}

// send sends the script of an operation.
func (b *bridge) send(p redis.Pipeliner, x Scripts, op operation, v *Server, k tokens) *redis.Cmd {
	owner := ownerOf(op.owner)
	keys := []string{keyLock, keyLock + ":t", keyLock + ":q", keyLock + ":w", keyTomb + owner}
	token := strconv.FormatInt(k.real(op.token, op.token == v.Last), 10)
	switch op.kind {
	case Acquire:
		return p.EvalSha(b.ctx, b.acquire, keys, owner, int(x.TTL)*tickMs, int(op.place)*tickMs, memoryMs)
	case Renew:
		return p.EvalSha(b.ctx, b.renew, keys[:1], int(x.TTL)*tickMs, owner+" "+token)
	case Release:
		tomb := 0
		if op.tomb {
			tomb = int(x.Tombstone) * tickMs
		}
		return p.EvalSha(b.ctx, b.release, keys, owner, tomb, memoryMs)
	}
	return p.EvalSha(b.ctx, b.force, keys[:4], token, memoryMs)
}

// inTicks rounds to whole ticks.
func inTicks(ms int64) int64 { return (ms + tickMs/2) / tickMs }

func trimmed(channel string) string { return strings.TrimPrefix(channel, "lw:") }
