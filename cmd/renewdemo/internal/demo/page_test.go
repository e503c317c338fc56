// The web page, without a browser.

package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
)

const pageTimeout = 30 * time.Second

// visitPage serves a page on a store in memory and returns its address. The page ends with the test.
func visitPage(t *testing.T, args ...string) (p *page, address string) {
	t.Helper()
	c, err := parse(append([]string{"-http", ":0", "-leases", "100", "-ttl", "1s"}, args...), io.Discard)
	require.NoError(t, err)
	listener, err := listen(c.http)
	require.NoError(t, err)
	p, err = newPage(openMemory(), c, &screen{w: io.Discard})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, p.acquire(ctx))
	ended := make(chan error, 1)
	go func() { ended <- p.serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		assert.ErrorIs(t, <-ended, errInterrupted)
		assert.ErrorIs(t, p.releaseInterrupted(context.Background()), errInterrupted)
		p.closeEngine()
		p.store.Disconnect()
		http.DefaultClient.CloseIdleConnections()
	})
	return p, "http://" + listener.Addr().String() + "/"
}

// inBubble runs f while a page on a store in memory works, without a server.
func inBubble(t *testing.T, f func(ctx context.Context, p *page)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := parse([]string{"-http", ":0", "-leases", "100"}, io.Discard)
		require.NoError(t, err)
		p, err := newPage(openMemory(), c, &screen{w: io.Discard})
		require.NoError(t, err)
		defer p.closeEngine()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		require.NoError(t, p.acquire(ctx))
		var working sync.WaitGroup
		working.Go(func() { p.work(ctx) })
		f(ctx, p)
		cancel()
		working.Wait()
		assert.ErrorIs(t, p.releaseInterrupted(context.Background()), errInterrupted)
	})
}

// frames reads the events of a page until wanted returns true for a frame, which it returns.
func frames(t *testing.T, address string, wanted func(frame) bool) frame {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pageTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"events", nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text, isData := strings.CutPrefix(lines.Text(), "data: ")
		if !isData {
			continue
		}
		var f frame
		require.NoError(t, json.Unmarshal([]byte(text), &f))
		if wanted(f) {
			return f
		}
	}
	require.NoError(t, lines.Err())
	require.Fail(t, "the events have ended")
	return frame{}
}

// ask sends a request and returns the status.
func ask(t *testing.T, method, url string, change func(*http.Request)) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	if change != nil {
		change(r)
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}

func TestThePageShowsTheEngine(t *testing.T) {
	t.Parallel()
	_, address := visitPage(t)
	first := frames(t, address, func(frame) bool { return true })
	require.NotNil(t, first.Hello)
	assert.Equal(t, 100, first.Hello.Leases)
	assert.Contains(t, first.Hello.Unavailable[faultKill], "needs a redis-server")
	f := frames(t, address, func(f frame) bool { return len(f.Columns) > 0 && f.Columns[0].Rate > 0 })
	assert.Nil(t, f.Hello, "only the first frame has what is kept")
	require.GreaterOrEqual(t, len(f.Wheel), 2)
	assert.Len(t, f.Wheel[0].Timers, hands)
	pending := 0
	for _, l := range f.Wheel {
		pending += sum(l.Timers)
	}
	assert.LessOrEqual(t, pending, 101, "a timer for each lease and one for the watchdog")
	assert.NotZero(t, f.Columns[0].Late)

	_, address = visitPage(t, "-engine", "heap")
	f = frames(t, address, func(f frame) bool { return f.Hello == nil })
	require.NotNil(t, f.Heap)
	assert.Len(t, f.Heap.Levels[1], 4)
}

// TestThePageTellsWhatAFaultCosts hangs the store until all holders are told and the rival has the watched
// lock, and then waits until the locks are taken again.
func TestThePageTellsWhatAFaultCosts(t *testing.T) {
	inBubble(t, func(ctx context.Context, p *page) {
		time.Sleep(5 * time.Second)

		urgent := p.feed.measure(0).urgent
		require.NoError(t, p.inject(ctx, faultHang))
		<-urgent // a frame shows it at once
		assert.ErrorIs(t, p.inject(ctx, faultSteal), errBusy)
		time.Sleep(3 * p.ttl)
		f := p.feed.measure(0)
		assert.Equal(t, faultHang, f.Active)
		assert.Zero(t, f.Held)
		assert.Equal(t, 100, f.Episode.Told)
		assert.Zero(t, f.Episode.Late)
		assert.Positive(t, f.Episode.Least)
		assert.Greater(t, f.Episode.Rival, f.Episode.Holder)
		assert.Equal(t, 100, sum(f.Episode.ToldBy))
		assert.Equal(t, 100, sum(f.Episode.FreeBy))
		require.NotEmpty(t, f.Losses)
		assert.Equal(t, renewal.ReasonExpired.String(), f.Losses[0].Reason)

		require.NoError(t, p.inject(ctx, faultHang), "the same button ends it")
		time.Sleep(rivalHolds + time.Second)
		f = p.feed.measure(0)
		assert.Equal(t, 100, f.Held)
		assert.Empty(t, f.Active)
		var whats []string
		for _, m := range f.Marks {
			whats = append(whats, m.What)
		}
		assert.Equal(t, []string{"has", "rival waits", "told", "rival has", "rival gone", "has", "rival waits"}, whats)
	})
}

// TestTheDemoStealsKeys deletes keys at the store. Exactly their holders are told, with the right reason.
func TestTheDemoStealsKeys(t *testing.T) {
	inBubble(t, func(ctx context.Context, p *page) {
		require.NoError(t, p.inject(ctx, faultSteal))
		time.Sleep(p.ttl)
		f := p.feed.measure(0)
		assert.Equal(t, stolenKeys, f.Episode.Told)
		require.NotEmpty(t, f.Losses)
		for _, l := range f.Losses {
			assert.Equal(t, renewal.ReasonNotOwned.String(), l.Reason)
		}
	})
}

func sum(list []int) (total int) {
	for _, n := range list {
		total += n
	}
	return total
}

// TestThePageRefusesOtherSites sends what a page of another site, or a name that it lets point to this
// machine, can send through the browser of a visitor.
func TestThePageRefusesOtherSites(t *testing.T) {
	t.Parallel()
	p, address := visitPage(t)
	origin := func(o string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Origin", o) }
	}
	assert.Equal(t, http.StatusForbidden, ask(t, http.MethodPost, address+"fault/hang", origin("http://other.example")))
	assert.Equal(t, http.StatusForbidden, ask(t, http.MethodPost, address+"fault/hang", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }))
	assert.Equal(t, http.StatusNotFound, ask(t, http.MethodGet, address+"fault/hang", nil), "only POST changes anything")
	for _, host := range []string{"other.example", "other.example:" + port(t, address), "localhost:1", "localhost"} {
		assert.Equal(t, http.StatusMisdirectedRequest, ask(t, http.MethodGet, address+"events", func(r *http.Request) { r.Host = host }), host)
	}
	assert.Empty(t, p.active)
	assert.Equal(t, http.StatusOK, ask(t, http.MethodGet, address, func(r *http.Request) { r.Host = "localhost:" + port(t, address) }))
	assert.Equal(t, http.StatusNoContent, ask(t, http.MethodPost, address+"fault/hang", origin(strings.TrimSuffix(address, "/"))))
	assert.Equal(t, http.StatusConflict, ask(t, http.MethodPost, address+"fault/other", nil))
}

func port(t *testing.T, address string) string {
	_, port, err := net.SplitHostPort(strings.Trim(strings.TrimPrefix(address, "http:"), "/"))
	require.NoError(t, err)
	return port
}

func TestAnAddressWithoutAHostIsThatOfThisMachine(t *testing.T) {
	t.Parallel()
	l, err := listen(":0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	assert.True(t, l.Addr().(*net.TCPAddr).IP.IsLoopback())
}
