package redisnode

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// piped is a client with one lane for scripts, whose server returns the key of each script.
type piped struct {
	*client
	testredis.Wire
	hangs atomic.Value // the start of the command that is not answered
	dials atomic.Int64
}

// newPiped returns a piped, for a bubble. set changes the options of its user.
func newPiped(t *testing.T, set func(*redis.Options)) *piped {
	p := new(piped)
	p.hangs.Store("")
	gone := make(chan struct{})
	p.Answer = func(command []string) string {
		name, hangs := strings.ToLower(command[0]), p.hangs.Load().(string)
		switch {
		case hangs != "" && strings.HasPrefix(name, hangs):
			<-gone
			return ""
		case !strings.HasPrefix(name, "eval"):
			return "+OK\r\n"
		}
		return "+" + command[3] + "\r\n"
	}
	o := &redis.Options{Addr: "127.0.0.1:1", Dialer: func(context.Context, string, string) (net.Conn, error) {
		p.dials.Add(1)
		near, far := net.Pipe()
		p.Serve(far)
		return near, nil
	}}
	set(o)
	rdb := redis.NewClient(o)
	p.client = newClient(t, rdb, Options{PoolSize: 1})
	t.Cleanup(func() {
		close(gone)
		assert.NoError(t, closeClient(p.client))
		assert.NoError(t, rdb.Close())
		p.Wait()
	})
	return p
}

// run runs echo and checks that the answer is its own.
func (p *piped) run(ctx context.Context, t *testing.T, key string) Answer {
	t.Helper()
	require.NoError(t, p.Begin(ctx))
	defer p.End()
	a := p.node.Run(ctx, echo, time.Now().Add(long), false, []any{nil, nil, 1, &key})
	if a.Err == nil {
		assert.Equal(t, key, a.Value)
	}
	return a
}

// A request ends at once wherever it is, and the next one has an answer of its own. Only a request that may have
// reached the server is sent.
func TestACancelledRequestEndsAtOnce(t *testing.T) {
	wait := func(ctx context.Context) error { // a function of the user
		<-ctx.Done()
		return ctx.Err()
	}
	for name, c := range map[string]struct {
		sent  bool
		hangs string // the command that is not answered
		set   func(o *redis.Options, hangs func() bool)
	}{
		"Dialer": {set: func(o *redis.Options, hangs func() bool) {
			dial := o.Dialer
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if hangs() {
					return nil, wait(ctx)
				}
				return dial(ctx, network, addr)
			}
		}},
		"credentials": {set: func(o *redis.Options, hangs func() bool) {
			o.CredentialsProviderContext = func(ctx context.Context) (string, string, error) {
				if hangs() {
					return "", "", wait(ctx)
				}
				return "u", "p", nil
			}
		}},
		"AUTH": {hangs: "auth", set: func(o *redis.Options, _ func() bool) { o.Password = "p" }},
		"OnConnect": {set: func(o *redis.Options, hangs func() bool) {
			o.OnConnect = func(ctx context.Context, _ *redis.Conn) error {
				if hangs() {
					return wait(ctx)
				}
				return nil
			}
		}},
		"a command of OnConnect": {hangs: "ping", set: func(o *redis.Options, _ func() bool) {
			o.OnConnect = func(ctx context.Context, c *redis.Conn) error { return c.Ping(context.WithoutCancel(ctx)).Err() }
		}},
		"answer": {sent: true, hangs: "eval", set: func(*redis.Options, func() bool) {}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hangs atomic.Bool
				p := newPiped(t, func(o *redis.Options) { c.set(o, hangs.Load) })
				hangs.Store(true)
				p.hangs.Store(c.hangs)
				for _, how := range []string{"cancelled", "late", "closed"} {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					began := time.Now()
					time.AfterFunc(time.Second/2, map[string]func(){"cancelled": cancel, "late": func() {}, "closed": func() { p.Cancel() }}[how])
					a := p.run(ctx, t, "first")
					cancel()
					want, after := context.Canceled, time.Second/2
					switch how {
					case "late":
						want, after = context.DeadlineExceeded, time.Second
					case "closed":
						want = ErrClosed
					}
					require.ErrorIs(t, a.Err, want, how)
					assert.Equal(t, after, time.Since(began), how)
					assert.Equal(t, c.sent, !a.Sent.IsZero(), how)
					if how == "late" {
						hangs.Store(false)
						p.hangs.Store("")
						require.NoError(t, p.run(t.Context(), t, "second").Err)
						made := p.dials.Load()
						require.NoError(t, p.run(t.Context(), t, "third").Err)
						assert.Equal(t, made, p.dials.Load())
						hangs.Store(true)
						p.hangs.Store(c.hangs)
						_ = p.node.scripts.idle[0].conn.Close() // the next request makes a connection
					}
				}
			})
		})
	}
}

// stepConn calls functions before and after bytes of a request are written.
type stepConn struct {
	net.Conn
	before, after *atomic.Value // func()
}

func (c stepConn) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "evalsha") {
		c.before.Load().(func())()
		defer func() { c.after.Load().(func())() }()
	}
	return c.Conn.Write(b)
}

// go-redis sets the deadline again between its steps; what was cancelled stays cancelled.
func TestACancellationSurvivesALaterDeadline(t *testing.T) {
	for _, when := range []string{"before the write", "between the write and the read", "after the return"} {
		synctest.Test(t, func(t *testing.T) {
			var before, after atomic.Value
			nothing := func() {}
			before.Store(nothing)
			after.Store(nothing)
			p := newPiped(t, func(o *redis.Options) {
				dial := o.Dialer
				o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := dial(ctx, network, addr)
					return stepConn{c, &before, &after}, err
				}
			})
			require.NoError(t, p.run(t.Context(), t, "first").Err)
			l := p.node.scripts.idle[0]
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			step := func() {
				time.Sleep(tickTime)
				synctest.Wait()
				cancel()
				synctest.Wait()
				require.NoError(t, l.conn.SetDeadline(time.Time{}))
				require.NoError(t, l.conn.SetReadDeadline(time.Now().Add(time.Hour)))
			}
			switch when {
			case "before the write":
				before.Store(step)
			case "between the write and the read":
				after.Store(step)
			default:
				require.NoError(t, p.run(ctx, t, "second").Err)
				late := l.request // its interruption comes while the next request runs
				before.Store(func() { l.interrupt(late) })
				require.NoError(t, p.run(t.Context(), t, "third").Err)
				return
			}
			a := p.run(ctx, t, "second")
			require.ErrorIs(t, a.Err, context.Canceled, when)
			assert.False(t, a.Sent.IsZero(), "it may be sent")
			before.Store(nothing)
			after.Store(nothing)
			require.NoError(t, p.run(t.Context(), t, "third").Err)
		})
	}
}

// The time of a request is one instant, whatever go-redis wants: it counts for each command of a handshake.
func TestARequestHasOneBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPiped(t, func(*redis.Options) {})
		require.NoError(t, p.run(t.Context(), t, "first").Err)
		l := p.node.scripts.idle[0]
		began := time.Now()
		_, err := l.begin(t.Context(), began.Add(time.Second))
		require.NoError(t, err)
		for _, wanted := range []time.Time{{}, began.Add(time.Hour)} {
			require.NoError(t, l.conn.SetReadDeadline(wanted))
			_, err = l.conn.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			assert.Equal(t, time.Second, time.Since(began))
		}
		_, err = l.end(t.Context(), err, driver.NoAnswerError(time.Second))
		assert.Equal(t, driver.NoAnswerError(time.Second), err)

		began = time.Now()
		_, err = l.begin(t.Context(), began.Add(time.Hour))
		require.NoError(t, err)
		_, err = l.conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, time.Hour, time.Since(began), "the time of the request before is over")
		_, _ = l.end(t.Context(), err, driver.NoAnswerError(time.Hour))
	})
}

// A request without an answer makes the idle lanes dial, too, so that a second try finds no other dead connection. A cancelled
// request does not, nor does one whose caller had less time, unless it is a renewal.
func TestASilentRequestMakesTheIdleLanesDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPiped(t, func(*redis.Options) {})
		for _, c := range []struct {
			q    *queue
			late int64 // dials after a request that had less time
		}{{p.node.renewals, 2}, {p.node.others, 1}} {
			q, lanes := c.q, slices.Clone(c.q.idle)
			send := func(ctx context.Context, l *lane) error {
				_, err := q.exec(ctx, l, time.Now().Add(q.bound), []call{{script: echo, args: []any{nil, nil, 1, "k"}}}, nil)
				return err
			}
			silent := func(ctx context.Context, dials int64) {
				before := p.dials.Load()
				q.idle = lanes[1:] // the other one has the request
				p.hangs.Store("eval")
				require.Error(t, send(ctx, lanes[0]))
				p.hangs.Store("")
				q.idle = lanes
				for _, l := range lanes {
					require.NoError(t, send(t.Context(), l))
				}
				assert.Equal(t, dials, p.dials.Load()-before)
			}
			for _, l := range lanes {
				require.NoError(t, send(t.Context(), l))
			}
			cancelled, cancel := context.WithCancel(t.Context())
			time.AfterFunc(q.bound/2, cancel)
			silent(cancelled, 1)
			silent(t.Context(), 2)
			late, end := context.WithTimeout(t.Context(), q.bound/2)
			silent(late, c.late)
			end()
		}
	})
}

// A request whose time is up is not sent, even if no tick has come since it began.
func TestALateRequestIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPiped(t, func(o *redis.Options) { o.Password = "secret" })
		answer := p.Answer
		p.Answer = func(command []string) string {
			if command[0] == "auth" {
				time.Sleep(tickTime / 2)
			}
			return answer(command)
		}
		for after, sent := range map[time.Duration]bool{tickTime / 4: false, 3 * tickTime / 4: true} {
			l := p.node.newQueue(1, time.Second, batchBuffer, false).idle[0]
			at, err := p.node.others.exec(t.Context(), l, time.Now().Add(after), []call{{script: echo, args: []any{nil, nil, 1, "k"}}}, nil)
			assert.Equal(t, sent, err == nil, after)
			assert.Equal(t, sent, !at.IsZero(), after)
		}
	})
}

// timedConn counts deadlines.
type timedConn struct {
	net.Conn
	set *atomic.Int64
}

func (c timedConn) SetDeadline(t time.Time) error {
	c.set.Add(1)
	return c.Conn.SetDeadline(t)
}

// A deadline is a timer of the runtime, which a request with an answer in time does not need.
func TestARequestThatIsAnsweredAtOnceSetsNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set atomic.Int64
		p := newPiped(t, func(o *redis.Options) {
			dial := o.Dialer
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := dial(ctx, network, addr)
				return timedConn{c, &set}, err
			}
		})
		require.NoError(t, p.run(t.Context(), t, "first").Err)
		set.Store(0)
		for range 3 {
			require.NoError(t, p.run(t.Context(), t, "later").Err)
		}
		assert.Zero(t, set.Load())
		p.hangs.Store("eval")
		ctx, cancel := context.WithTimeout(t.Context(), 2*tickTime)
		defer cancel()
		require.ErrorIs(t, p.run(ctx, t, "late").Err, context.DeadlineExceeded)
		assert.Positive(t, set.Load())
	})
}

// A server whose answers are cut short, a moment late or missing.
func unreliable(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		command, err := testredis.ReadCommand(r)
		if err != nil {
			return
		}
		reply := "-ERR unknown command\r\n" // to HELLO
		if strings.HasPrefix(strings.ToLower(command[0]), "eval") {
			reply = fmt.Sprintf("*2\r\n:1\r\n$%d\r\n%s\r\n", len(command[3]), command[3])
		}
		switch rand.N(1000) {
		case 0:
			return
		case 1:
			reply = reply[:rand.N(len(reply))] // and nothing else, as from a link that was cut
			_, _ = io.WriteString(conn, reply)
			_, _ = io.Copy(io.Discard, r)
			return
		case 2:
			_, _ = io.WriteString(conn, reply[:rand.N(len(reply))])
			return
		case 3, 4, 5:
			time.Sleep(rand.N(5 * time.Millisecond))
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

// No reply ever reaches another caller.
func TestRepliesReachTheirCallersAlone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() { unreliable(conn) })
		}
	})
	rdb := redis.NewClient(&redis.Options{Addr: l.Addr().String()})
	c := newClient(t, rdb, Options{Timeout: 200 * time.Millisecond})
	var answered, failed atomic.Int64
	var callers sync.WaitGroup
	const each = 20
	for g := range 1000 {
		callers.Go(func() {
			for i := range each {
				if !assert.NoError(t, c.Begin(t.Context())) {
					return
				}
				ctx, cancel := context.WithCancel(t.Context())
				if rand.N(3) == 0 {
					time.AfterFunc(rand.N(20*time.Millisecond), cancel)
				}
				token := fmt.Sprintf("token %d of %d", i, g)
				a := c.node.Run(ctx, echo, time.Now().Add(c.node.timeout), i%7 == 0, []any{nil, nil, 1, &token})
				c.End()
				cancel()
				if a.Err != nil {
					failed.Add(1)
					continue
				}
				answered.Add(1)
				assert.Equal(t, []any{int64(1), token}, a.Value)
				assert.False(t, a.Sent.IsZero())
			}
		})
	}
	callers.Wait()
	t.Log(answered.Load(), "answered,", failed.Load(), "failed")
	assert.Positive(t, answered.Load())
	assert.Positive(t, failed.Load())
	require.NoError(t, closeClient(c))
	require.NoError(t, rdb.Close())
	require.NoError(t, l.Close())
	served.Wait()
}

// A server that does not know TLS refuses the handshake with a RST or with silence; a dial that was cancelled for one caller
// fails no other.
func TestACancelledDialDoesNotFailTheNextCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		p := newPiped(t, func(o *redis.Options) {
			dial := o.Dialer
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if hangs.Load() {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return dial(ctx, network, addr)
			}
		})
		hangs.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		calls.Go(func() { assert.ErrorIs(t, p.run(ctx, t, "dials").Err, context.Canceled) })
		synctest.Wait()
		calls.Go(func() { assert.NoError(t, p.run(t.Context(), t, "waits").Err) })
		synctest.Wait()
		hangs.Store(false)
		cancel()
		calls.Wait()
		for range 3 {
			require.NoError(t, p.run(t.Context(), t, "later").Err)
		}
	})
}

func TestLanesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPiped(t, func(*redis.Options) {})
		q := p.node.renewals
		until := time.Now().Add(time.Second)
		first, err := q.take(t.Context(), until)
		require.NoError(t, err)
		second, err := q.take(t.Context(), until)
		require.NoError(t, err)
		_, err = q.take(t.Context(), until)
		require.ErrorIs(t, err, driver.NoAnswerError(long))
		assert.Equal(t, until, time.Now())
		time.AfterFunc(time.Second, func() { q.pass(first) })
		again, err := q.take(t.Context(), until.Add(time.Hour))
		require.NoError(t, err)
		assert.Same(t, first, again)
		q.pass(second)
		q.pass(again)
		next, err := q.take(t.Context(), until)
		require.NoError(t, err)
		assert.Same(t, first, next, "the one that was used last")
	})
}
