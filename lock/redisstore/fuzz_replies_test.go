package redisstore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

// huge matches a length for which go-redis would allocate more memory than a process has.
var huge = regexp.MustCompile(`[$*=!%~>|][-+0-9]{6,}`)

// resp3 matches a reply of RESP 3. go-redis reads some of them as those of RESP 2.
var resp3 = regexp.MustCompile(`(?:^|\n|\x1e)[_#,(%~>|=!]`)

// FuzzReplies makes a server send arbitrary replies and signals. The result of each call must
// be the one that a strict parser finds in the bytes, or an error, and must come in time.
//
// The first argument has a letter for each call. The second has the replies to scripts, in
// order. The third has the bytes that follow the confirmation of a subscription.
func FuzzReplies(f *testing.F) {
	const grant, busy = "$2\r\n17\r\n", "*4\r\n:0\r\n$2\r\n17\r\n:2500\r\n:1\r\n"
	signal := func(token string) string {
		payload := message("c:1", token)
		return fmt.Sprintf("$%d\r\n%s\r\n", len(payload), payload)
	}
	signalled := "*3\r\n$7\r\nmessage\r\n$4\r\nlw:c\r\n" + signal("18")
	for _, seed := range []struct{ calls, answers, signals string }{
		{"a", grant, ""},
		{"aa", grant + grant + "\x1e" + busy, ""}, // one reply too many
		{"aa", grant + "+\x1e" + busy, ""},
		{"a", "+17\r\n", ""},
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
		{"a", "*-2\r\n", ""},
		{"a", "$-2\r\n", ""},
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
		{"i", "*7\r\n$6\r\nc:1 17\r\n:2000\r\n:1\r\n*0\r\n$2\r\n17\r\n$-1\r\n*0\r\n", ""},
		{"i", "*7\r\n$-1\r\n:-2\r\n:1\r\n*1\r\n$3\r\nx:1\r\n$-1\r\n$-1\r\n*1\r\n:12\r\n", ""},
		{"i", "*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n", ""},
		{"f", "*7\r\n$6\r\nc:1 17\r\n:2000\r\n:1\r\n*0\r\n$2\r\n17\r\n$-1\r\n*0\r\n\x1e:1\r\n", ""},
		{"w", busy, signalled},
		{"w", busy, strings.Replace(signalled, " 18 ", " 19 ", 1)}, // the proof is for another token
		{"w", busy, strings.Replace(signalled, signal("18"), signal("0"), 1) + signalled},
		{"w", busy + "\x1e" + grant, ""},
		{"w", grant, ""},
		{"w", busy, strings.Replace(signalled, signal("18"), signal("17"), 1)},
		{"w", busy, "-NOPERM\r\n"},
		{"w", busy, "*3\r\n$7\r\nmessage\r\n"},
		{"w", busy, ":1\r\n"},
		{"w", busy, "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n" + signal("18")},
		{"w", busy, "*3\r\n$7\r\nmessage\r\n$4\r\nlw:c\r\n*1\r\n" + signal("18")},
		{"w", busy, "*3\r\n$7\r\nmessage\r\n$4\r\nlw:c\r\n$-1\r\n" + signalled},
		{"w", busy, "*1\r\n$7\r\nmessage\r\n"},
		{"w", busy, "*3\r\n:1\r\n:2\r\n:3\r\n"},
		{"w", busy, "*3\r\n$9\r\nsubscribe\r\n$4\r\nlw:c\r\n$1\r\n1\r\n"},
		{"w", busy, "*0\r\n"},
		{"w", busy, "*-1\r\n"},
	} {
		f.Add([]byte(seed.calls), []byte(seed.answers), []byte(seed.signals))
	}
	f.Fuzz(func(t *testing.T, calls, answers, signals []byte) {
		const most = 2000 // go-redis reads a whole reply at once, and notices surplus bytes
		if len(calls) > 6 || len(answers) > most || len(signals) > most || huge.Match(answers) || huge.Match(signals) {
			t.Skip()
		}
		synctest.Test(t, func(t *testing.T) {
			p := newScriptedServer(answers, signals)
			rdb, end := p.client()
			defer end()
			s, err := New(rdb, &Options{Timeout: time.Second})
			require.NoError(t, err)
			defer s.Close()
			if resp3.Match(answers) {
				begun := time.Now()
				_, _ = s.Acquire(t.Context(), checkedRequest)
				assert.LessOrEqual(t, time.Since(begun), time.Second)
				return
			}
			x := &replyChecker{t: t, s: s, p: p, signals: signals}
			for _, c := range calls {
				x.call(c)
				synctest.Wait()
				p.takeGiven()
			}
		})
	})
}

// replyChecker compares the results of a store with the replies that it got.
type replyChecker struct {
	t       *testing.T
	s       *Store
	p       *scriptedServer
	signals []byte
}

var checkedRequest = driver.Request{Key: "k", Owner: "c:1", TTL: ttl30}

func (x *replyChecker) call(c byte) {
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

// lastReply returns the last reply. It reports whether the reply is exactly one value.
func (x *replyChecker) lastReply() (v frame, whole bool) {
	given := x.p.takeGiven()
	if len(given) == 0 {
		return nil, false
	}
	last := given[len(given)-1]
	v, rest, ok := firstFrame(last)
	return v, ok && len(rest) == 0
}

// grantOf parses the reply of the acquire script to the new holder.
func grantOf(v frame) (token uint64, ok bool) {
	if items, _ := v.([]frame); len(items) == 2 && items[0] == frame(int64(1)) { // as for a shared lock
		v = items[1]
	}
	return tokenOf(v)
}

func tokenOf(v frame) (uint64, bool) {
	text, _ := v.(string)
	token, err := strconv.ParseUint(text, 10, 64)
	return token, err == nil && token > 0 && token < 1<<53 && strconv.FormatUint(token, 10) == text
}

func (x *replyChecker) acquire(ctx context.Context) {
	l, err := x.s.Acquire(ctx, checkedRequest)
	v, whole := x.lastReply()
	token, granted := grantOf(v)
	switch {
	case err == nil:
		require.True(x.t, granted, "%q is not a grant", v)
		assert.Equal(x.t, token, l.Token)
		assert.Equal(x.t, checkedRequest, l.Request)
	case errors.Is(err, driver.ErrNotAcquired):
		items, _ := v.([]frame)
		require.NotEmpty(x.t, items)
		code, _ := items[0].(int64)
		assert.True(x.t, code == 0 && len(items) == 4 || code == -1 && len(items) == 1, "%q does not mean that the lock is taken", v)
	case granted && whole:
		assert.Fail(x.t, "a valid grant is accepted", "%q: %v", v, err)
	}
	secretless(x.t, orElse(err), "c:1")
}

// orElse replaces a nil error, because secretless needs an error.
func orElse(err error) error {
	if err == nil {
		return rediskit.ErrNilContext
	}
	return err
}

func (x *replyChecker) release(ctx context.Context) {
	err := x.s.Release(ctx, driver.Lease{Request: checkedRequest, Token: 17})
	v, whole := x.lastReply()
	switch {
	case err == nil:
		assert.Equal(x.t, frame(int64(1)), v)
	case errors.Is(err, driver.ErrNotHeld):
		assert.Contains(x.t, []frame{int64(0), int64(2)}, v)
	case whole:
		assert.NotContains(x.t, []frame{int64(0), int64(1), int64(2)}, v)
	}
}

// renew renews as many leases as three scripts carry.
func (x *replyChecker) renew(ctx context.Context) {
	batch := make([]driver.Lease, 3*rediskit.LeasesPerScript)
	for i := range batch {
		batch[i] = driver.Lease{Request: checkedRequest, Token: 17}
	}
	out := make([]renewal.Outcome, len(batch))
	err := x.s.Renew(ctx, batch, out)
	answers := renewalsOf(x.p.takeGiven())
	for i, got := range out {
		lost, ok := answers[i/rediskit.LeasesPerScript].([]frame)
		switch {
		case got == renewal.Unknown:
			assert.Error(x.t, err)
		case !ok:
			require.Fail(x.t, "there is no reply", "%v of %v", got, answers)
		default:
			listed := slices.Contains(lost, frame(int64(i%rediskit.LeasesPerScript+1)))
			assert.Equal(x.t, listed, got.IsLost(), "%d of %q", i, lost)
		}
	}
}

// renewalsOf returns the replies to each of the three scripts. The scripts are sent together,
// so the first three replies form one stream. The replies to scripts that were sent again,
// because the server did not know them, form a second stream, whose first script was sent in full, and a third one.
func renewalsOf(given [][]byte) [3]frame {
	var answers [3]frame
	open := []int{0, 1, 2}
	for try := 1; len(open) > 0 && len(given) > 0; try++ {
		n := min(len(open), len(given))
		stream := frames(bytes.Join(given[:n], nil))
		given = given[n:]
		var unknown []int
		for k, i := range open[:min(len(open), len(stream))] {
			answers[i] = stream[k]
			if r, ok := stream[k].(errorReply); ok && strings.HasPrefix(string(r), "NOSCRIPT") && (try == 1 || k > 0) {
				unknown = append(unknown, i)
			}
		}
		open = unknown
	}
	for i, a := range answers {
		if items, ok := a.([]frame); !ok || !rises(items) {
			answers[i] = nil // an invalid reply
		}
	}
	return answers
}

// rises reports whether the items are rising numbers of leases in a script.
func rises(items []frame) bool {
	last := int64(0)
	for _, item := range items {
		n, ok := item.(int64)
		if !ok || n <= last || n > rediskit.LeasesPerScript {
			return false
		}
		last = n
	}
	return true
}

func (x *replyChecker) inspect(ctx context.Context) {
	info, err := x.s.Inspect(ctx, "k")
	v, _ := x.lastReply()
	items, _ := v.([]frame)
	if err != nil {
		assert.Zero(x.t, info)
		return
	}
	require.Len(x.t, items, 7)
	assert.Equal(x.t, info.Held > 0 || info.FreeIn > 0, items[0] != nil)
}

func (x *replyChecker) force(ctx context.Context) {
	err := x.s.ForceRelease(ctx, "k")
	v, _ := x.lastReply()
	if err == nil {
		assert.Equal(x.t, frame(int64(1)), v)
	}
}

// messages are the kinds of messages that go-redis accepts.
var messages = []frame{"message", "pmessage", "smessage"}

// wait accepts a grant by a reply or by a signal.
func (x *replyChecker) wait(ctx context.Context) {
	l, err := x.s.Wait(ctx, checkedRequest, func() {})
	if err != nil {
		return
	}
	var granted []uint64
	for _, answer := range x.p.takeGiven() {
		v, _, _ := firstFrame(answer)
		if token, ok := grantOf(v); ok {
			granted = append(granted, token)
		}
	}
	for _, v := range frames(x.signals) {
		if items, _ := v.([]frame); len(items) >= 3 && slices.Contains(messages, items[0]) {
			payload, _ := items[len(items)-1].(string)
			_, text, _ := strings.Cut(payload, " ")
			text, _, _ = strings.Cut(text, " ")
			if token, ok := tokenOf(text); ok && payload == message("c:1", text) {
				granted = append(granted, token)
			}
		}
	}
	assert.Contains(x.t, granted, l.Token, "no reply or signal has granted the token")
}

// scriptedServer is a server in a synctest bubble. Its replies to scripts, and what it sends
// after a subscription, are given in advance, byte by byte.
type scriptedServer struct {
	signals []byte // sent after the confirmation of a subscription
	refusal []byte // if set, the answer to each command

	mu      sync.Mutex // guards all below
	scripts int        // that have arrived
	answers [][]byte   // to the next scripts; later scripts get no reply
	given   [][]byte   // the replies since the last call of takeGiven
	conns   []net.Conn
	work    sync.WaitGroup
}

const (
	nextAnswer = 0x1e // separates the replies on a tape
	hangUp     = 0x04 // at the end of a reply: the server closes the connection after it
)

func newScriptedServer(tape, signals []byte) *scriptedServer {
	return &scriptedServer{signals: signals, answers: bytes.Split(tape, []byte{nextAnswer})}
}

// client returns a client of the server, and a function that closes both.
func (p *scriptedServer) client() (*redis.Client, func()) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: p.dial})
	return rdb, func() {
		rdb.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.work.Wait()
	}
}

func (p *scriptedServer) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	out := make(chan []byte, 100) // a pipe has no buffer, and go-redis writes a whole pipeline before it reads
	p.mu.Lock()
	p.conns = append(p.conns, theirs)
	p.mu.Unlock()
	p.work.Go(func() {
		defer close(out)
		p.read(theirs, out)
	})
	p.work.Go(func() {
		defer theirs.Close()
		for answer := range out {
			text, over := bytes.CutSuffix(answer, []byte{hangUp})
			if _, err := theirs.Write(text); err != nil || over {
				break
			}
		}
		theirs.Close()
		for range out { // until read has returned
		}
	})
	return ours, nil
}

func (p *scriptedServer) read(from io.Reader, out chan<- []byte) {
	r := bufio.NewReader(from)
	for {
		command, err := testredis.ReadCommand(r)
		if err != nil {
			return
		}
		if answer := p.answer(command); answer != nil {
			out <- answer
		}
	}
}

func (p *scriptedServer) answer(command []string) []byte {
	name := strings.ToLower(command[0])
	if strings.HasPrefix(name, "eval") {
		p.mu.Lock()
		p.scripts++
		p.mu.Unlock()
	}
	if p.refusal != nil {
		return p.refusal
	}
	switch name {
	case "eval", "evalsha":
		return p.next()
	case "subscribe":
		channel := command[1]
		on := "*3\r\n$9\r\nsubscribe\r\n$" + strconv.Itoa(len(channel)) + "\r\n" + channel + "\r\n:1\r\n"
		return append([]byte(on), p.signals...)
	case "ping":
		return []byte("*2\r\n$4\r\npong\r\n$0\r\n\r\n")
	default:
		return []byte("-ERR unknown command\r\n")
	}
}

// next returns the reply to the next script, or nil for no reply.
func (p *scriptedServer) next() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.answers) == 0 {
		return nil
	}
	answer := p.answers[0]
	p.answers = p.answers[1:]
	p.given = append(p.given, answer)
	return answer
}

// counts returns how many scripts have arrived, and how many connections were made.
func (p *scriptedServer) counts() (scripts, dials int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.scripts, len(p.conns)
}

// takeGiven returns the replies since its last call.
func (p *scriptedServer) takeGiven() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	given := p.given
	p.given = nil
	return given
}

// frame is a RESP value.
type frame any

// errorReply is a RESP value that begins with '-'.
type errorReply string

// frames returns the complete values at the start of b.
func frames(b []byte) (all []frame) {
	for {
		v, rest, ok := firstFrame(b)
		if !ok {
			return all
		}
		all, b = append(all, v), rest
	}
}

func firstFrame(b []byte) (v frame, rest []byte, ok bool) {
	from := bytes.NewReader(b)
	r := bufio.NewReader(from)
	v, err := readFrame(r)
	if err != nil {
		return nil, b, false
	}
	return v, b[len(b)-from.Len()-r.Buffered():], true
}

// readFrame parses a RESP value as the specification describes it, for the types that the
// scripts of the store return, and a few more.
func readFrame(r *bufio.Reader) (frame, error) {
	line, err := r.ReadString('\n')
	if err != nil || len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, io.ErrUnexpectedEOF
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return text, nil
	case '-':
		return errorReply(text), nil
	case ':':
		return strconv.ParseInt(text, 10, 64)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n > 1<<20 {
		return nil, io.ErrUnexpectedEOF
	}
	switch {
	case n == -1:
		return nil, nil //nolint:nilnil // the value is nil
	case kind == '$' && n >= 0:
		bulk := make([]byte, n+2)
		_, err := io.ReadFull(r, bulk)
		return string(bulk[:n]), err
	case kind == '*' && n >= 0:
		var items []frame
		for range n {
			item, err := readFrame(r)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		return items, nil
	}
	return nil, io.ErrUnexpectedEOF
}
