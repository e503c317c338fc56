package redisstore

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// FuzzReplies lets a server answer scripts, and signal, whatever comes to the
// fuzzer's mind. What the store then says must be what a strict reading of the bytes
// says, or an error, in the time that it has.
//
// The first argument are calls: a letter for each. The second are the answers to
// scripts, in order.
func FuzzReplies(f *testing.F) {
	const grant, busy = "*2\r\n:1\r\n$2\r\n17\r\n", "*4\r\n:0\r\n$2\r\n17\r\n:2500\r\n:1\r\n"
	const message = "*3\r\n$7\r\nmessage\r\n$4\r\nlw:c\r\n$6\r\nc:1 18\r\n"
	for _, seed := range []struct{ calls, answers, signals string }{
		{"a", grant, ""},
		{"aa", grant + grant + "\x1e" + busy, ""}, // one answer too many
		{"aa", grant + "+\x1e" + busy, ""},
		{"a", "*2\r\n:1\r\n+17\r\n", ""},
		{"a", "*1\r\n:-1\r\n", ""},
		{"a", busy, ""},
		{"a", "-NOSCRIPT x\r\n\x1e" + grant, ""},
		{"a", "-NOSCRIPT x\r\n\x1e-NOSCRIPT x\r\n", ""},
		{"a", "-WRONGTYPE x\r\n", ""},
		{"a", "-READONLY x\r\n", ""},
		{"a", "-MOVED 1 127.0.0.1:2\r\n", ""},
		{"aa", "-\r\n\x1e" + grant, ""},
		{"a", "*2\r\n:1\r\n", ""},
		{"a", "*2\r\n:1\r\n\x04", ""},
		{"a", "\x04", ""},
		{"a", "*2\r\n:1\r\n$9223372036854775807\r\n17", ""},
		{"a", "$99999999999\r\n", ""},
		{"a", "*2147483647\r\n", ""},
		{"a", "*-2\r\n", ""},
		{"a", "$-2\r\n", ""},
		{"a", "*1048577\r\n:1\r\n", ""},
		{"a", strings.Repeat("*1\r\n", 1000), ""},
		{"a", ":99999999999999999999\r\n", ""},
		{"a", "_\r\n", ""},
		{"a", "#t\r\n", ""},
		{"a", ",1.5\r\n", ""},
		{"a", "(17\r\n", ""},
		{"a", "%1\r\n:1\r\n$2\r\n17\r\n", ""},
		{"a", "~2\r\n:1\r\n$2\r\n17\r\n", ""},
		{"a", ">2\r\n:1\r\n$2\r\n17\r\n" + grant, ""},
		{"a", "|1\r\n+k\r\n+v\r\n" + grant, ""},
		{"a", "=6\r\ntxt:17\r\n", ""},
		{"a", "!3\r\nERR\r\n", ""},
		{"r", ":1\r\n", ""},
		{"r", ":0\r\n", ""},
		{"r", ":2\r\n", ""},
		{"r", ":3\r\n", ""},
		{"r", "+1\r\n", ""},
		{"rr", ":1\r\n:1\r\n\x1e:0\r\n", ""},
		{"n", "*0\r\n\x1e*2\r\n:1\r\n:25\r\n\x1e*0\r\n", ""},
		{"n", "*0\r\n*0\r\n\x1e*0\r\n\x1e*0\r\n", ""},
		{"n", "*0\r\n\x1e-ERR x\r\n\x1e*1\r\n:3\r\n", ""},
		{"n", "-NOSCRIPT x\r\n\x1e*0\r\n\x1e-NOSCRIPT x\r\n\x1e*1\r\n:7\r\n\x1e$1\r\n1\r\n", ""},
		{"n", "*1\r\n:26\r\n\x1e*0\r\n\x1e*0\x04", ""},
		{"n", "*2\r\n:2\r\n:1\r\n\x1e*-1\r\n\x1e*0\r\n", ""},
		{"na", "*0\r\n\x1e*0\r\n\x1e*0\r\n" + grant + "\x1e" + busy, ""},
		{"i", "*5\r\n$6\r\nc:1 17\r\n:2000\r\n:1\r\n*0\r\n$2\r\n17\r\n", ""},
		{"i", "*5\r\n$-1\r\n:-2\r\n:0\r\n*0\r\n$-1\r\n", ""},
		{"i", "*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n", ""},
		{"f", "*5\r\n$6\r\nc:1 17\r\n:2000\r\n:1\r\n*0\r\n$2\r\n17\r\n\x1e:1\r\n", ""},
		{"w", busy, message},
		{"w", busy + "\x1e" + grant, ""},
		{"w", grant, ""},
		{"w", busy, strings.Replace(message, "18", "17", 1)},
		{"w", busy, "-NOPERM\r\n"},
		{"w", busy, "*3\r\n$7\r\nmessage\r\n"},
		{"w", busy, ":1\r\n"},
		{"w", busy, "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$6\r\nc:1 18\r\n"},
		{"w", busy, "*3\r\n$7\r\nmessage\r\n$4\r\nlw:c\r\n*1\r\n$6\r\nc:1 18\r\n"},
		{"w", busy, "*3\r\n$7\r\nmessage\r\n$4\r\nlw:c\r\n$-1\r\n" + message},
		{"w", busy, "*1\r\n$7\r\nmessage\r\n"},
		{"w", busy, "*3\r\n:1\r\n:2\r\n:3\r\n"},
		{"w", busy, "*3\r\n$9\r\nsubscribe\r\n$4\r\nlw:c\r\n$1\r\n1\r\n"},
		{"w", busy, "*0\r\n"},
		{"w", busy, "*-1\r\n"},
	} {
		f.Add([]byte(seed.calls), []byte(seed.answers), []byte(seed.signals))
	}
	f.Fuzz(func(t *testing.T, calls, answers, signals []byte) {
		const most = 2000 // so that go-redis reads an answer at once, and sees what is too much of it
		if len(calls) > 6 || len(answers) > most || len(signals) > most {
			t.Skip()
		}
		synctest.Test(t, func(t *testing.T) {
			p := newPoison(answers, signals)
			rdb, end := p.client()
			defer end()
			s, err := New(rdb, &Options{Timeout: time.Second})
			require.NoError(t, err)
			defer s.Close()
			x := &poisoned{t: t, s: s, p: p, signals: signals}
			for _, c := range calls {
				x.call(c)
				synctest.Wait()
				p.forget()
			}
		})
	})
}

// poisoned holds what a store says against what it was told.
type poisoned struct {
	t       *testing.T
	s       *Store
	p       *poison
	signals []byte
}

var poisonedRequest = lock.Request{Key: "k", Owner: "c:1", TTL: ttl30}

func (x *poisoned) call(c byte) {
	begun, bound := time.Now(), time.Second
	ctx := x.t.Context()
	switch c {
	case 'a':
		x.acquire(ctx)
	case 'r':
		x.release(ctx)
	case 'n':
		ctx, cancel := context.WithTimeout(ctx, bound)
		defer cancel()
		x.renew(ctx)
	case 'i':
		x.inspect(ctx)
	case 'f':
		bound *= 2 // two scripts
		x.force(ctx)
	case 'w':
		bound = 8 * time.Second
		ctx, cancel := context.WithTimeout(ctx, bound)
		defer cancel()
		x.wait(ctx)
	}
	assert.LessOrEqual(x.t, time.Since(begun), bound)
}

// told returns the one value that the last answer is, whole and alone; or nothing.
func (x *poisoned) told() (v frame, whole bool) {
	given := x.p.forget()
	if len(given) == 0 {
		return nil, false
	}
	last := given[len(given)-1]
	v, rest, ok := firstFrame(last)
	return v, ok && len(rest) == 0
}

// grantOf reads what the acquire script says to the one that has the lock.
func grantOf(v frame) (token uint64, ok bool) {
	items, _ := v.([]frame)
	if len(items) != 2 || items[0] != frame(int64(1)) {
		return 0, false
	}
	return tokenOf(items[1])
}

func tokenOf(v frame) (uint64, bool) {
	text, _ := v.(string)
	token, err := strconv.ParseUint(text, 10, 64)
	return token, err == nil && token > 0 && token < 1<<53 && strconv.FormatUint(token, 10) == text
}

func (x *poisoned) acquire(ctx context.Context) {
	l, err := x.s.Acquire(ctx, poisonedRequest)
	v, whole := x.told()
	token, granted := grantOf(v)
	switch {
	case err == nil:
		require.True(x.t, granted, "%q is no grant", v)
		assert.Equal(x.t, token, l.Token)
		assert.Equal(x.t, poisonedRequest, l.Request)
	case errors.Is(err, lock.ErrNotAcquired):
		items, _ := v.([]frame)
		require.NotEmpty(x.t, items)
		code, _ := items[0].(int64)
		assert.True(x.t, code == 0 && len(items) == 4 || code == -1 && len(items) == 1, "%q does not say that the lock is taken", v)
	case granted && whole:
		assert.Fail(x.t, "a good answer is good", "%q: %v", v, err)
	}
	secretless(x.t, orElse(err), "c:1")
}

// orElse gives secretless something to look at.
func orElse(err error) error {
	if err == nil {
		return errNilContext
	}
	return err
}

func (x *poisoned) release(ctx context.Context) {
	err := x.s.Release(ctx, lock.Lease{Request: poisonedRequest, Token: 17})
	v, whole := x.told()
	switch {
	case err == nil:
		assert.Equal(x.t, frame(int64(1)), v)
	case errors.Is(err, lock.ErrNotHeld):
		assert.Contains(x.t, []frame{int64(0), int64(2)}, v)
	case whole:
		assert.NotContains(x.t, []frame{int64(0), int64(1), int64(2)}, v)
	}
}

// renew renews three scripts of leases.
func (x *poisoned) renew(ctx context.Context) {
	batch := make([]lock.Lease, 3*keysPerScript)
	for i := range batch {
		batch[i] = lock.Lease{Request: poisonedRequest, Token: 17}
	}
	out := make([]renewal.Outcome, len(batch))
	err := x.s.Renew(ctx, batch, out)
	answers := renewalsOf(x.p.forget())
	for i, got := range out {
		lost, ok := answers[i/keysPerScript].([]frame)
		switch {
		case got == renewal.Unknown:
			assert.Error(x.t, err)
		case !ok:
			require.Fail(x.t, "nothing was said", "%v of %v", got, answers)
		default:
			listed := slices.Contains(lost, frame(int64(i%keysPerScript+1)))
			assert.Equal(x.t, listed, got == renewal.Lost, "%d of %q", i, lost)
		}
	}
}

// renewalsOf returns what the server said to each of the three scripts: in one
// stream, because they are sent together, and in another to those that it did not
// know.
func renewalsOf(given [][]byte) [3]frame {
	var answers [3]frame
	first := frames(bytes.Join(given[:min(3, len(given))], nil))
	var open []int
	for i := range min(len(answers), len(first)) {
		answers[i] = first[i]
		if r, ok := first[i].(refusal); ok && strings.HasPrefix(string(r), "NOSCRIPT") {
			open = append(open, i)
		}
	}
	if len(given) > 3 {
		second := frames(bytes.Join(given[3:], nil))
		for k, i := range open[:min(len(open), len(second))] {
			answers[i] = second[k]
		}
	}
	for i, a := range answers {
		if items, ok := a.([]frame); !ok || !rises(items) {
			answers[i] = nil // which says nothing
		}
	}
	return answers
}

// rises reports whether all are numbers, each above the one before and none above
// those of the leases.
func rises(items []frame) bool {
	last := int64(0)
	for _, item := range items {
		n, ok := item.(int64)
		if !ok || n <= last || n > keysPerScript {
			return false
		}
		last = n
	}
	return true
}

func (x *poisoned) inspect(ctx context.Context) {
	info, err := x.s.Inspect(ctx, "k")
	v, _ := x.told()
	items, _ := v.([]frame)
	if err != nil {
		assert.Zero(x.t, info)
		return
	}
	require.Len(x.t, items, 5)
	assert.Equal(x.t, info.Held > 0, items[0] != nil)
}

func (x *poisoned) force(ctx context.Context) {
	err := x.s.ForceRelease(ctx, "k")
	v, _ := x.told()
	if err == nil {
		assert.Equal(x.t, frame(int64(1)), v)
	}
}

// messages are the kinds that go-redis knows.
var messages = []frame{"message", "pmessage", "smessage"}

// wait may be told by an answer or by a signal.
func (x *poisoned) wait(ctx context.Context) {
	l, err := x.s.Wait(ctx, poisonedRequest)
	if err != nil {
		return
	}
	var granted []uint64
	for _, answer := range x.p.forget() {
		v, _, _ := firstFrame(answer)
		if token, ok := grantOf(v); ok {
			granted = append(granted, token)
		}
	}
	for _, v := range frames(x.signals) {
		if items, _ := v.([]frame); len(items) >= 3 && slices.Contains(messages, items[0]) {
			payload, _ := items[len(items)-1].(string)
			text, mine := strings.CutPrefix(payload, "c:1 ")
			if token, ok := tokenOf(text); ok && mine {
				granted = append(granted, token)
			}
		}
	}
	assert.Contains(x.t, granted, l.Token, "nobody has granted that")
}
