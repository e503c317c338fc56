package zkstore

import (
	"context"
	"encoding/binary"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testzk"
)

const testTimeout = 60 * time.Second

// connected returns a link whose session 1 the leader has confirmed just now.
func connected() *link {
	l := &link{changed: make(chan struct{}), expired: func(int64) {}}
	l.hasSession(1, testTimeout, time.Now())
	return l
}

// takes returns how long it takes until it is known that the session lasts for d from now.
func takes(t *testing.T, l *link, d time.Duration) time.Duration {
	t.Helper()
	start := time.Now()
	require.NoError(t, l.lasts(t.Context(), 1, start.Add(d)))
	return time.Since(start)
}

func TestALeaseEndsBeforeItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connected()
		assert.Zero(t, takes(t, l, testTimeout), "the leader knows")
		time.Sleep(40 * time.Second) // the process stands still
		assert.Zero(t, takes(t, l, 20*time.Second))
		l.answered(ping{time.Now(), time.Now()})
		assert.Zero(t, takes(t, l, 20*time.Second))
		assert.Equal(t, 10*time.Second, takes(t, l, 30*time.Second), "a server tells the leader in this time")
		assert.Zero(t, takes(t, l, 50*time.Second), "it is known by now")
	})
}

// A ping that was on its way for long says nothing about the time after it was sent.
func TestASlowPingCountsFromItsBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connected()
		sent := time.Now().Add(20 * time.Second)
		time.Sleep(40 * time.Second)
		l.answered(ping{sent, time.Now()})
		assert.Equal(t, 10*time.Second, takes(t, l, 30*time.Second), "the answer counts from now")
		go func() {
			time.Sleep(5 * time.Second) // at 55 s
			l.answered(ping{time.Now(), time.Now()})
		}()
		assert.Equal(t, 15*time.Second, takes(t, l, 31*time.Second), "80 s are not enough")
	})
}

func TestLastsGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connected()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, l.lasts(ctx, 1, time.Now().Add(2*testTimeout)), context.DeadlineExceeded)
		require.ErrorIs(t, l.lasts(t.Context(), 2, time.Now()), errNewSession)
		go func() {
			time.Sleep(time.Second)
			l.hasSession(3, testTimeout, time.Now())
		}()
		require.ErrorIs(t, l.lasts(t.Context(), 1, time.Now().Add(2*testTimeout)), errNewSession)
	})
}

// pieces is a connection that answers in pieces.
type pieces struct {
	net.Conn
	bytes []byte
	size  int
}

func (p *pieces) Read(b []byte) (int, error) {
	n := copy(b[:min(p.size, len(b))], p.bytes)
	p.bytes = p.bytes[n:]
	return n, nil
}

func (*pieces) Write(b []byte) (int, error) { return len(b), nil }

func packet(body ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
} //nolint:gosec // short

func TestAnswersArriveInPieces(t *testing.T) {
	greeting := packet(0, 0, 0, 0, 0, 0, 0x75, 0x30, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0)
	other := packet(0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9, 0, 0, 0, 0, 42)
	answer := packet(0xff, 0xff, 0xff, 0xfe, 9, 9, 9, 9, 9, 9, 9, 9, 0, 0, 0, 0)
	event := packet(0xff, 0xff, 0xff, 0xff, 9, 9, 9, 9)
	for size := 1; size < 100; size += 3 {
		synctest.Test(t, func(t *testing.T) {
			l := connected()
			began := time.Now()
			conn := &pieces{size: size}
			o := &observed{Conn: conn, link: l, dialed: began.Add(-time.Second)}
			for range 2 {
				_, err := o.Write(packet(0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11))
				require.NoError(t, err)
				time.Sleep(time.Second)
			}
			for _, p := range [][]byte{greeting, other, answer, event, answer, answer} {
				conn.bytes = append(conn.bytes, p...)
			}
			for len(conn.bytes) > 0 {
				_, err := o.Read(make([]byte, 1000))
				require.NoError(t, err)
			}
			assert.Equal(t, int64(0x0102030405060708), l.session)
			assert.Equal(t, 30*time.Second, l.granted)
			assert.Equal(t, began.Add(-time.Second), l.confirmed)
			assert.Equal(t, []ping{{began, time.Now()}, {began.Add(time.Second), time.Now()}}, l.pings, "as many as were sent")
		})
	}
}

func TestPingsOfAServerAreSeen(t *testing.T) {
	t.Parallel()
	s, err := New(t.Context(), []string{testzk.Shared(t).Address}, &Options{SessionTimeout: 3 * time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.Eventually(t, func() bool {
		s.clients[0].link.mu.Lock()
		defer s.clients[0].link.mu.Unlock()
		return len(s.clients[0].link.pings) > 1 && s.clients[0].link.pings[0].sent.After(s.clients[0].link.confirmed)
	}, time.Minute, 10*time.Millisecond)
}
