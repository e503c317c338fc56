package model

import (
	"crypto/sha1"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// observe writes a state to the server, executes an operation, and returns its outcome in
// the terms of the model.
func (b *bridge) observe(x Scripts, v *Server, op operation, k tokens) (outcome, error) {
	before := time.Now()
	k.base = before.UnixMicro() - oldUs
	p := b.rdb.Pipeline()
	b.put(p, x, v, k, before.UnixMilli())
	answer := b.send(p, x, op, v, k)
	p.Publish(b.ctx, "lw:"+endMark, endMark)
	see := b.see(p, x)
	if _, err := p.Exec(b.ctx); err != nil && !errors.Is(err, redis.Nil) {
		return outcome{}, err
	}
	text := func(token string) string { return k.name(token, v, before) }
	o := outcome{answer: b.answer(answer, op, text), keys: see(text)}
	for {
		m, err := b.signals.ReceiveMessage(b.ctx)
		if err != nil {
			return outcome{}, err
		}
		if m.Payload == endMark {
			return o, nil
		}
		owner, token, told := x.readSignal(m.Payload)
		signal := fmt.Sprintf("%s %s %s", trimmed(m.Channel), owner, text(token))
		if told != nil {
			signal += " " + stateText(*told, text)
		}
		o.signals = append(o.signals, signal)
	}
}

// readSignal returns the owner and the token of a message, and the state if it tells that.
func (x Scripts) readSignal(payload string) (owner, token string, state *string) {
	digest := func(text string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(text))) }
	parts := strings.SplitN(payload, " ", 4)
	if len(parts) < 3 {
		return "nobody", payload, nil
	}
	proven := parts[1]
	if len(parts) == 4 {
		state = &parts[3]
		proven += " " + digest(*state)
	}
	for i := range MaxOwners {
		if owner := x.ownerOf(i); parts[0] == digest(owner)[:16] && parts[2] == digest(owner+" "+proven) {
			return owner, parts[1], state
		}
	}
	return "nobody", payload, nil
}

// name returns the token of the model for a real token.
func (k tokens) name(text string, v *Server, before time.Time) string {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return "no number: " + text
	case n == 0:
		return "0"
	case k.ahead && v.Last > 0 && n == k.real(v.Last, true):
		return fmt.Sprint(v.Last)
	case k.ahead && n == k.real(v.Last, true)+1:
		return "last+1"
	case !k.ahead && n >= before.UnixMicro() && n <= time.Now().UnixMicro():
		return "now"
	}
	return fmt.Sprint(n - k.base)
}

func (b *bridge) answer(cmd *redis.Cmd, op operation, text func(string) string) string {
	switch v := cmd.Val().(type) {
	case int64:
		return fmt.Sprint(v)
	case string: // a grant
		return "1 " + text(v)
	case []any:
		if op.kind == Renew || op.bulk {
			return strings.Trim(fmt.Sprint(v), "[]")
		}
		parts := make([]string, len(v))
		for i := range v {
			switch part := v[i].(type) {
			case string:
				parts[i] = text(part)
				if i == 2 {
					parts[i] = stateText(part, text)
				}
			case int64:
				if i == 2 {
					part = inTicks(part)
				}
				parts[i] = fmt.Sprint(part)
			}
		}
		return strings.Join(parts, " ")
	}
	return fmt.Sprint("unexpected: ", cmd.Val(), cmd.Err())
}

// stateText formats a state as [Saved.text] does.
func stateText(state string, text func(string) string) string {
	if state == "" {
		return "none"
	}
	token, rest, _ := strings.Cut(state, " ")
	return text(token) + " " + rest
}

// see requests all keys of the server. The returned function lists them.
func (b *bridge) see(p redis.Pipeliner, x Scripts) func(func(string) string) []string {
	ms := func(key string) *redis.Cmd { return p.Do(b.ctx, "PTTL", key) }
	value, valueMs := p.Get(b.ctx, keyLock), ms(keyLock)
	last, lastMs := p.Get(b.ctx, keyLock+":t"), ms(keyLock+":t")
	queue, queueMs := p.LRange(b.ctx, keyLock+":q", 0, -1), ms(keyLock+":q")
	places, placesMs := p.ZRangeWithScores(b.ctx, keyLock+":w", 0, -1), ms(keyLock+":w")
	state, stateMs := p.Get(b.ctx, keyLock+":s"), ms(keyLock+":s")
	tombs := make([]*redis.Cmd, x.Owners)
	for i := range tombs {
		tombs[i] = ms(keyTomb + x.ownerOf(i))
	}
	size := p.DBSize(b.ctx)
	return func(text func(string) string) []string {
		now := time.Now()
		left := func(cmd *redis.Cmd) int64 { n, _ := cmd.Int64(); return inTicks(n) }
		known := int64(0)
		var keys []string
		if value.Err() == nil {
			known++
			owner, token, _ := strings.Cut(value.Val(), " ")
			keys = append(keys, fmt.Sprintf("lock %s %s for %d", owner, text(token), left(valueMs)))
		}
		if last.Err() == nil {
			known++
			keys = append(keys, "last "+remembered(last.Val(), lastMs, now, text))
		}
		for _, owner := range queue.Val() {
			keys = append(keys, "turn "+owner)
		}
		ends, lengths, since := map[string]int64{}, map[string]bool{}, map[string]string{}
		for _, z := range places.Val() {
			if owner, ok := strings.CutSuffix(z.Member.(string), "}"); ok {
				lengths[owner] = math.Ceil(z.Score) == math.Ceil(length(x, 0).Score)
				since[owner] = sinceOf(z.Score, now)
				continue
			}
			ends[z.Member.(string)] = max(inTicks(int64(z.Score)-now.UnixMilli()), 0)
		}
		for i := range tombs {
			if end, ok := ends[x.ownerOf(i)]; ok || lengths[x.ownerOf(i)] {
				if !ok || !lengths[x.ownerOf(i)] {
					keys = append(keys, "a place without a length, or the other way round")
				}
				keys = append(keys, fmt.Sprintf("place %s for %d since %s", x.ownerOf(i), end, since[x.ownerOf(i)]))
			}
			if n, _ := tombs[i].Int64(); n > 0 {
				known++
				keys = append(keys, fmt.Sprintf("tombstone %s for %d", x.ownerOf(i), inTicks(n)))
			}
		}
		if len(queue.Val()) > 0 || len(places.Val()) > 0 {
			known += 2
			keys = append(keys, fmt.Sprintf("queue for %d", left(queueMs)))
			if left(queueMs) != left(placesMs) {
				keys = append(keys, fmt.Sprintf("places for %d", left(placesMs)))
			}
		}
		if state.Err() == nil {
			known++
			keys = append(keys, fmt.Sprintf("state %s for %d", stateText(state.Val(), text), left(stateMs)))
		}
		if size.Val() != known {
			keys = append(keys, fmt.Sprintf("%d keys", size.Val()))
		}
		return keys
	}
}

// remembered formats the last token, and whether its key expires the right time after the
// moment that it names.
func remembered(token string, ms *redis.Cmd, now time.Time, text func(string) string) string {
	shown := text(token)
	if shown != "now" && shown != "last+1" {
		return "as before"
	}
	us, _ := strconv.ParseInt(token, 10, 64)
	want := us/1000 - now.UnixMilli() + memoryMs
	if got, _ := ms.Int64(); got < want-tickMs/2 || got > want+tickMs/2 {
		return fmt.Sprintf("%s for %d ms instead of %d", shown, got, want)
	}
	return shown
}
