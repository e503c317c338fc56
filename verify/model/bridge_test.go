package model

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/luascript"
)

const (
	tickMs   = 100_000    // much longer than a command takes
	memoryMs = 10_000_000 // how long the last token is remembered
	oldUs    = 3_600e6    // age of the tokens of a state
	aheadUs  = 1_000e6    // how far the last token is ahead, if it is
	keyLock  = "lw:{n}"
	keyTomb  = keyLock + ":x:"
	channels = "lw:*"
	endMark  = "end"
)

// bridge executes the operations of the model with the Lua scripts on a real server.
type bridge struct {
	ctx     context.Context
	rdb     *redis.Client
	signals *redis.PubSub

	acquire, renew, release, releaseAll, force, save string // digests of the scripts
}

func newBridge(t *testing.T) *bridge {
	b := &bridge{ctx: t.Context(), rdb: shared.Server(t).Client(t)}
	load := func(name string) string {
		script, err := luascript.Assemble(name, readLua)
		require.NoError(t, err)
		digest, err := b.rdb.ScriptLoad(b.ctx, fmt.Sprintf("local TOKEN_TTL = '%d'\n", memoryMs)+script).Result()
		require.NoError(t, err)
		return digest
	}
	b.acquire, b.renew, b.force = load("acquire"), load("renew"), load("force")
	b.release, b.releaseAll, b.save = load("release"), load("release_all"), load("save")
	b.signals = b.rdb.PSubscribe(b.ctx, channels)
	t.Cleanup(func() { b.signals.Close() })
	_, err := b.signals.Receive(b.ctx)
	require.NoError(t, err)
	return b
}

// readLua returns the text of a Lua file of package redisstore.
func readLua(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join("..", "..", "lock", "redisstore", "lua", name+".lua"))
	return string(text), err
}

// operation is a request to the server.
type operation struct {
	kind  Kind // NoRequest means FORCE
	owner int
	place uint8 // place of an ACQUIRE
	token uint8 // token of a RENEW, a FORCE or a bulk RELEASE
	tomb  bool  // whether a RELEASE writes a tombstone
	keep  uint8 // how long a RELEASE keeps the lock taken
	bulk  bool  // a RELEASE of several locks in one script
	state bool  // whether an ACQUIRE asks for the state
	save  uint8 // number of a SAVE
}

func (op operation) String() string {
	switch op.kind {
	case Acquire:
		return fmt.Sprintf("ACQUIRE of %s, place %d, with the state %v", name(op.owner), op.place, op.state)
	case Renew:
		return fmt.Sprintf("RENEW of %s, token %d", name(op.owner), op.token)
	case Release:
		if op.bulk {
			return fmt.Sprintf("RELEASE in bulk of %s, token %d", name(op.owner), op.token)
		}
		return fmt.Sprintf("RELEASE of %s, tombstone %v, kept for %d", name(op.owner), op.tomb, op.keep)
	case Save:
		return fmt.Sprintf("SAVE %d of %s, token %d", op.save, name(op.owner), op.token)
	}
	return fmt.Sprintf("FORCE of token %d", op.token)
}

// run executes an operation on the server of the model.
func (op operation) run(x Scripts, v *Server) (Reply, Effects) {
	switch op.kind {
	case Acquire:
		return x.Acquire(v, op.owner, op.place)
	case Renew:
		return x.Renew(v, op.owner, op.token), noEffects
	case Release:
		if op.bulk {
			return x.ReleaseAll(v, op.owner, op.token)
		}
		return x.Release(v, op.owner, op.tomb, op.keep)
	case Save:
		return x.Save(v, op.owner, Saved{op.token, op.save, op.save}), noEffects
	}
	return x.Force(v, op.token)
}

// outcome is the answer of an operation, its messages, and the keys of the server after it.
type outcome struct {
	answer  string
	signals []string
	keys    []string
}

func (o outcome) String() string {
	return fmt.Sprintf("answer %s, signals %v, keys %v", o.answer, o.signals, o.keys)
}

// tokens translates between tokens of a state and real tokens.
type tokens struct {
	base  int64 // the real token of 0
	fresh uint8 // the token of the clock
	ahead bool  // the last token is ahead of the clock
}

func (k tokens) real(token uint8, last bool) int64 {
	if last && k.ahead {
		return k.base + oldUs + aheadUs
	}
	return k.base + int64(token)
}

// keptOwner is the owner of a lock that is taken by nobody.
const keptOwner = "{kept}"

// ownerOf returns the name of an owner on the real server. With saves, each asks for the state.
func (x Scripts) ownerOf(i int) string {
	owner := "client" + name(i) + ":1"
	if x.Saves > 0 {
		owner += "{."
	}
	return owner
}

// expect returns the outcome of an operation in the model.
func (x Scripts) expect(v Server, op operation, k tokens) outcome {
	x.Clock = k.fresh
	if k.ahead {
		x.Clock = 1
	}
	last, old := v.Last, v.Saved
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
	if op.bulk && reply.Code == HadLock {
		reply.Code = Renewed // the answer lists the locks that were not released
	}
	switch reply.Code {
	case Refused:
		o.answer = "-1"
	case Granted:
		o.answer = "1 " + text(reply.Token)
		if op.state {
			o.answer += " " + v.Saved.text(text)
		}
	case Queued:
		head := 0
		if reply.Head {
			head = 1
		}
		o.answer = fmt.Sprintf("0 %s %d %d", text(reply.Token), reply.Left, head)
	case Renewed:
		o.answer = ""
	case NotHeld, HadLock, Stored:
		o.answer = "1"
		if op.kind == Save && reply.Code == NotHeld {
			o.answer = "0"
		}
		if op.kind == Renew && v.holder() != nobody {
			o.answer = "-1" // another owner has it; a kept lock has none
		}
	case HadPlace:
		o.answer = "2"
	default:
		o.answer = "0"
	}
	if eff.Signal {
		signal := fmt.Sprintf("client%s %s %s", name(eff.Granted), x.ownerOf(eff.Granted), text(v.Token))
		if x.Saves > 0 && x.Mutation != SignalTellsNothing && (op.kind != Acquire || op.state) {
			signal += " " + v.Saved.text(text)
		}
		o.signals = append(o.signals, signal)
	}
	for _, owner := range []int{eff.Forced, eff.Asked} {
		if owner != nobody {
			o.signals = append(o.signals, fmt.Sprintf("client%s %s 0", name(owner), x.ownerOf(owner)))
		}
	}
	arrives := nobody
	if eff.Arrives {
		arrives = op.owner
	}
	o.keys = x.keys(&v, text, last, arrives)
	if v.Saved.Token > 0 {
		end := oldStateEnds
		if v.Saved != old {
			end = newStateEnds
		}
		o.keys = append(o.keys, fmt.Sprintf("state %s for %d", v.Saved.text(text), end))
	}
	return o
}

// Ticks until a state expires: one that was there before an operation, and one of a SAVE.
const oldStateEnds, newStateEnds = 4, 5

// text formats a state as the server stores it.
func (s Saved) text(token func(uint8) string) string {
	if s.Token == 0 {
		return "none"
	}
	return fmt.Sprintf("%s %d data %d", token(s.Token), s.Number, s.Call)
}

// keys lists the keys of a server of the model. The owner arrives got its place by the last operation.
func (x Scripts) keys(v *Server, text func(uint8) string, last uint8, arrives int) []string {
	var keys []string
	if h := v.holder(); h != nobody {
		keys = append(keys, fmt.Sprintf("lock %s %s for %d", x.ownerOf(h), text(v.Token), v.Left))
	} else if v.kept() {
		keys = append(keys, fmt.Sprintf("lock %s %s for %d", keptOwner, text(v.Token), v.Left))
	}
	if v.Last > 0 {
		shown := text(v.Last)
		if v.Last == last {
			shown = "as before"
		}
		keys = append(keys, "last "+shown)
	}
	for position := range x.Owners {
		for i := range v.Records {
			if int(v.Records[i].Position) == position+1 {
				keys = append(keys, "turn "+x.ownerOf(i))
			}
		}
	}
	for i := range v.Records {
		if place := v.Records[i].Place; place > 0 {
			since := "before"
			if i == arrives {
				since = "now"
			}
			keys = append(keys, fmt.Sprintf("place %s for %d since %s", x.ownerOf(i), place-1, since))
		}
		if v.Records[i].Tombstone > 0 {
			keys = append(keys, fmt.Sprintf("tombstone %s for %d", x.ownerOf(i), v.Records[i].Tombstone))
		}
	}
	if v.first() != nobody {
		keys = append(keys, fmt.Sprintf("queue for %d", v.QueueLeft))
	}
	return keys
}

// put writes a state of the model to the real server.
func (b *bridge) put(p redis.Pipeliner, x Scripts, v *Server, k tokens, nowMs int64) {
	p.FlushAll(b.ctx)
	ms := func(left uint8) time.Duration { return time.Duration(left) * tickMs * time.Millisecond }
	if v.Token > 0 {
		owner := keptOwner
		if h := v.holder(); h != nobody {
			owner = x.ownerOf(h)
		}
		p.Set(b.ctx, keyLock, fmt.Sprintf("%s %d", owner, k.real(v.Token, v.Token == v.Last)), ms(v.Left))
	}
	if v.Last > 0 {
		p.Set(b.ctx, keyLock+":t", k.real(v.Last, true), memoryMs*time.Millisecond)
	}
	if of := v.Saved; of.Token > 0 {
		token := fmt.Sprint(k.real(of.Token, of.Token == v.Last))
		p.Set(b.ctx, keyLock+":s", of.text(func(uint8) string { return token }), ms(oldStateEnds))
	}
	for position := range uint8(MaxOwners) {
		for i := range v.Records {
			if v.Records[i].Position == position+1 {
				p.RPush(b.ctx, keyLock+":q", x.ownerOf(i))
			}
		}
	}
	for i := range v.Records {
		if place := int64(v.Records[i].Place); place > 0 {
			ends := nowMs + (place-1)*tickMs
			if place == 1 {
				ends = nowMs - tickMs/4
			}
			p.ZAdd(b.ctx, keyLock+":w", redis.Z{Score: float64(ends), Member: x.ownerOf(i)}, length(x, i))
		}
		if v.Records[i].Tombstone > 0 {
			p.Set(b.ctx, keyTomb+x.ownerOf(i), 1, ms(v.Records[i].Tombstone))
		}
	}
	const more = tickMs / 4 * time.Millisecond // a time equal to a bound must not fall below it
	p.PExpire(b.ctx, keyLock+":q", ms(v.QueueLeft)+more)
	p.PExpire(b.ctx, keyLock+":w", ms(v.QueueLeft)+more)
}

// arrived is the time of arrival of all places that are there before an operation, as the fraction of the
// length of a place.
const arrived = 0.125

// length returns the record of the length of a place, with the time of its arrival.
func length(x Scripts, owner int) redis.Z {
	return redis.Z{Score: -float64(x.Place)*tickMs - arrived, Member: x.ownerOf(owner) + "}"}
}

// sinceOf returns when the place with that record of its length was taken.
func sinceOf(score float64, now time.Time) string {
	_, fraction := math.Modf(-score)
	switch {
	case fraction == arrived:
		return "before"
	case math.Abs(fraction*1e13-float64(now.UnixMilli())) < tickMs/2:
		return "now"
	}
	return fmt.Sprint("another time: ", fraction)
}

// send sends the script of an operation.
func (b *bridge) send(p redis.Pipeliner, x Scripts, op operation, v *Server, k tokens) *redis.Cmd {
	owner := x.ownerOf(op.owner)
	all := []string{keyLock, keyLock + ":t", keyLock + ":q", keyLock + ":w", keyTomb + owner, keyLock + ":s", keyLock + ":m"}
	keys := all[:5]
	if op.state {
		keys = all[:6]
	} else if op.kind == Release && x.Saves > 0 {
		keys = all
	}
	token := strconv.FormatInt(k.real(op.token, op.token == v.Last), 10)
	switch op.kind {
	case Acquire:
		args := []any{owner, int(x.TTL) * tickMs}
		if op.place > 0 {
			args = append(args, int(op.place)*tickMs)
		}
		return p.EvalSha(b.ctx, b.acquire, keys, args...)
	case Renew:
		return p.EvalSha(b.ctx, b.renew, keys[:1], int(x.TTL)*tickMs, owner+" "+token)
	case Release:
		if op.bulk {
			return p.EvalSha(b.ctx, b.releaseAll, []string{keyLock, keyLock + ":q", keyLock + ":m"}, owner+" "+token)
		}
		tomb := 0
		if op.tomb {
			tomb = int(x.Tombstone) * tickMs
		} else if len(keys) == 5 {
			keys = keys[:4]
		}
		args := []any{owner, tomb, int(op.keep) * tickMs}
		switch {
		case op.keep == 0 && !op.tomb:
			args = args[:1]
		case op.keep == 0:
			args = args[:2]
		}
		return p.EvalSha(b.ctx, b.release, keys, args...)
	case Save:
		return p.EvalSha(b.ctx, b.save, []string{keyLock, all[5]}, owner+" "+token, token, int(op.save), fmt.Sprint("data ", op.save), newStateEnds*tickMs)
	}
	return p.EvalSha(b.ctx, b.force, all, token)
}

// inTicks rounds milliseconds to ticks.
func inTicks(ms int64) int64 { return (ms + tickMs/2) / tickMs }

func trimmed(channel string) string { return strings.TrimPrefix(channel, "lw:") }
