// The run behind the web page: the leases, and the faults that visitors inject.

package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// page is a run that is shown on a web page, whose visitors inject the faults. It holds the leases
// until it is interrupted, and takes lost ones again as soon as no fault is under way.
type page struct {
	*demo
	store  *faultStore
	server *redisServer // nil if the server is not that of the demo
	feed   *feed

	mu      sync.Mutex // guards all fields below, and demo.held
	lost    map[int]bool
	active  string        // the fault under way, or ""
	episode *episode      // the last fault; nil if there was none
	began   chan struct{} // is closed when the next fault begins
}

const (
	retakeInterval = 250 * time.Millisecond
	stolenKeys     = 10
	faultShown     = 3 * frameInterval // how long a fault lasts at least, so that a visitor sees it

	rivalPause = 100 * time.Millisecond
	rivalHolds = 3 * time.Second // at least, so that it can be seen
)

// servePage holds the leases and serves the page until ctx ends.
func servePage(ctx context.Context, c config, s *screen) (err error) {
	server, url, err := ownServer(ctx, c.store)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	defer server.remove()
	c.store = url
	b, err := open(ctx, c)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	defer b.Disconnect()
	if server != nil {
		b.Name = "a redis-server of its own"
	}
	listener, err := listen(c.http)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()

	p, err := newPage(b, c, s)
	if err != nil {
		return err
	}
	defer p.closeEngine()
	p.server = server
	s.line("%s leases with a TTL of %v on %s", count(c.leases), c.ttl, b.Name)
	err = p.acquire(ctx)
	if err == nil {
		s.line("the page is at http://%s/ until Ctrl-C", listener.Addr())
		err = p.serve(ctx, listener)
	}
	p.store.answer()
	if err == nil || errors.Is(err, errInterrupted) {
		return p.releaseInterrupted(ctx)
	}
	return errors.Join(err, p.release(ctx))
}

// newPage creates a page with its engine and its client.
func newPage(b *backend, c config, s *screen) (p *page, err error) {
	p = &page{store: newFaultStore(b), lost: map[int]bool{}, began: make(chan struct{})}
	p.feed = &feed{page: p}
	// The first level of a client's own wheel is 512 ticks of TTL/3000 long. Here a turn takes
	// TTL/5, so that the eye can follow, and renewals after TTL/3 use the second level too.
	p.demo, err = newDemo(p.store, c, s, c.ttl/1200, &lock.Hooks{Lost: p.told})
	return p, err
}

// listen listens on an address. An address without a host is that of this machine only.
func listen(address string) (net.Listener, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && host == "" {
		address = net.JoinHostPort("localhost", port)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("-http: %w", err)
	}
	return listener, nil
}

// serve serves the page until ctx ends.
func (p *page) serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { p.work(ctx) })
	srv := &http.Server{
		Handler:           p.handler(ctx, listener.Addr().String()),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	wg.Go(func() {
		<-ctx.Done()
		_ = srv.Close()
	})
	if err := srv.Serve(listener); ctx.Err() == nil {
		return err
	}
	return errInterrupted
}

// work contends for the first lock and takes lost locks again, until ctx ends.
func (p *page) work(ctx context.Context) {
	p.feed.mark("has", time.Now(), p.watched().Token())
	var wg sync.WaitGroup
	for _, part := range []func(context.Context){p.retake, p.contend} {
		wg.Go(func() { part(ctx) })
	}
	wg.Wait()
}

// told is the hook for losses.
func (p *page) told(_ context.Context, info lock.HookInfo) {
	now := time.Now()
	lost, _ := errors.AsType[*renewal.LostError](info.Err)
	i, err := strconv.Atoi(strings.TrimPrefix(info.Key, p.prefix))
	if err != nil {
		return
	}
	end := p.store.heldUntil(info.Key)
	// The last of 10,000 hooks is called tens of milliseconds after its holder was notified. Left was
	// measured at that notification, against an end that is not after this one.
	if told := end.Add(-lost.Left); lost.Left != 0 && told.Before(now) {
		now = told
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost[i] = true
	if e := p.episode; e != nil && (e.Ended == 0 || unixMS(now)-e.Ended < float64(p.ttl.Milliseconds())) {
		e.add(i, now, end)
	}
	p.feed.lost(i, now, lost)
}

// retake takes lost locks again while no fault is under way.
func (p *page) retake(ctx context.Context) {
	ticker := time.NewTicker(retakeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		p.mu.Lock()
		var lost []int
		if p.active == "" {
			for i := range p.lost {
				lost = append(lost, i)
			}
		}
		p.mu.Unlock()
		p.lockEach(ctx, lost, func(i int, h *lock.Held, err error) {
			if err != nil {
				return // it is still held, or the store cannot be reached
			}
			p.mu.Lock()
			p.held[i] = h
			if h.Err() == nil { // it may have been lost, and that recorded, before this goroutine got mu
				delete(p.lost, i)
			}
			p.mu.Unlock()
			if i == 0 {
				p.feed.mark("has", time.Now(), h.Token())
			}
		})
	}
}

// contend lets a rival wait for the first lock whenever the demo holds it: a second process, or a second
// client if the store is in the memory of this one.
func (p *page) contend(ctx context.Context) {
	for sleep(ctx, rivalPause) == nil {
		if p.watched().Valid() {
			p.contendOnce(ctx)
		}
	}
}

// keptOpen is a store that a client does not close.
type keptOpen struct{ driver.Store }

func (keptOpen) Shutdown(context.Context) error { return nil }

// contendOnce waits for the lock, and unlocks it when the fault is over.
func (p *page) contendOnce(ctx context.Context) {
	var rival *peer
	if p.config.store == "" {
		shared := *p.store.backend
		shared.Store = keptOpen{shared.Store}
		rival = startLocal(ctx, &shared)
	} else {
		var err error
		if rival, err = startHolder(p.config.store, nil); err != nil {
			return
		}
	}
	defer func() {
		_ = rival.close()
		p.feed.mark("rival gone", time.Now(), 0)
	}()
	stop := context.AfterFunc(ctx, func() { // a process that waits for a lock does not see that its input has ended
		if rival.process != nil {
			_ = rival.process.Kill()
		}
	})
	defer stop()
	p.feed.mark("rival waits", time.Now(), 0)
	if rival.send("lock %s %d", p.keyOf(0), p.ttl.Milliseconds()) != nil {
		return
	}
	has, err := rival.wait(ctx, "has") // fails while the server is away
	if err != nil {
		return
	}
	p.feed.mark("rival has", has.at, has.value)
	p.mu.Lock()
	if p.episode != nil && p.episode.Rival == 0 {
		p.episode.Rival = unixMS(has.at)
	}
	p.mu.Unlock()
	for end := time.Now().Add(rivalHolds); ; {
		p.mu.Lock()
		over := p.active == "" && time.Now().After(end)
		p.mu.Unlock()
		if over || sleep(ctx, rivalPause) != nil {
			return
		}
	}
}

// watched returns the handle of the lock that the rival waits for.
func (p *page) watched() *lock.Held {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[0]
}

// Faults that a visitor can inject.
const (
	faultHang   = "hang"   // the holders' requests get no answer
	faultSteal  = "steal"  // some keys are deleted
	faultPause  = "pause"  // the process is stopped
	faultKill   = "kill"   // the server is killed, and restarted with its data
	faultForget = "forget" // the server is killed, and restarted without its data
)

// unavailable returns why a fault cannot be injected, or "".
func (p *page) unavailable(fault string) string {
	switch {
	case fault == faultPause && !canStop:
		return "needs a Unix system"
	case (fault == faultKill || fault == faultForget) && p.server == nil:
		return "needs a redis-server in PATH and no -store"
	case !slices.Contains([]string{faultHang, faultSteal, faultPause, faultKill, faultForget}, fault):
		return "there is no such fault"
	}
	return ""
}

var errBusy = errors.New("another fault is under way")

// inject starts a fault. A store that hangs answers again after the same call.
func (p *page) inject(ctx context.Context, fault string) error {
	if why := p.unavailable(fault); why != "" {
		return errors.New(why)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case fault == faultHang && p.active == fault:
		p.end()
		return nil
	case p.active != "":
		return errBusy
	}
	p.active = fault
	p.episode = newEpisode(fault, time.Now(), p.client.Stats().Renewal.Held)
	close(p.began)
	p.began = make(chan struct{})
	if fault == faultHang {
		p.store.hang()
		return nil
	}
	go func() { // it outlives the request
		err := p.play(ctx, fault)
		p.mu.Lock()
		defer p.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			p.episode.Failed = err.Error()
		}
		p.end()
	}()
	return nil
}

// end ends the fault under way. The caller holds mu.
func (p *page) end() {
	p.active = ""
	p.episode.Ended = unixMS(time.Now())
	p.store.answer()
}

// play injects a fault that ends by itself, and returns at its end.
func (p *page) play(ctx context.Context, fault string) error {
	switch fault {
	case faultSteal:
		return p.stealKeys(ctx)
	case faultPause:
		if err := sleep(ctx, faultShown); err != nil { // visitors learn why there is no news
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.episode.Began = unixMS(time.Now())
		return p.pauseProcess()
	default:
		p.server.kill()
		if fault == faultForget {
			if err := p.server.forget(); err != nil {
				return err
			}
		}
		if err := sleep(ctx, max(p.ttl/8, faultShown)); err != nil { // locks survive if the server is away for up to TTL/3
			return err
		}
		if err := p.server.start(ctx); err != nil {
			return err
		}
		p.mu.Lock()
		p.episode.Resumed = unixMS(time.Now())
		p.mu.Unlock()
		return sleep(ctx, p.ttl) // every lease has been renewed, or its holder notified
	}
}

// stealKeys deletes the keys of some locks, the watched one first, and returns when all their holders
// were notified.
func (p *page) stealKeys(ctx context.Context) error {
	p.mu.Lock()
	numbers := []int{0}
	for _, i := range rand.Perm(p.leases) {
		if len(numbers) == stolenKeys {
			break
		}
		if i != 0 && !p.lost[i] {
			numbers = append(numbers, i)
		}
	}
	p.episode.Held = len(numbers)
	p.mu.Unlock()
	keys := make([]string, len(numbers))
	for n, i := range numbers {
		keys[n] = p.keyOf(i)
	}
	if err := p.store.Delete(ctx, keys); err != nil {
		return err
	}
	end := time.Now().Add(p.ttl)
	for time.Now().Before(end) {
		if err := sleep(ctx, faultShown); err != nil {
			return err
		}
		p.mu.Lock()
		told := !slices.ContainsFunc(numbers, func(i int) bool { return !p.lost[i] })
		p.mu.Unlock()
		if told {
			break
		}
	}
	return nil
}

// pauseProcess stops this process until all leases have ended. Right after that it asks every lease whether
// it is valid. The caller holds mu.
func (p *page) pauseProcess() error {
	pause := p.ttl + p.ttl/2
	began := time.Now()
	wake, err := stopSelf(pause)
	if err != nil {
		return err
	}
	// The signal may stop the process a moment after stopSelf has returned. The pause is the
	// first long gap between two looks at the clock.
	last := began
	for now := time.Now(); now.Sub(last) < p.ttl; now = time.Now() {
		if now.Sub(began) > pause {
			return errors.New("the process was not stopped")
		}
		last = now
	}
	p.episode.Resumed = unixMS(time.Now())
	for _, h := range p.held {
		if h.Valid() {
			p.episode.Valid++
		}
	}
	return wake()
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// unixMS returns an instant in milliseconds since 1970, as JavaScript counts time.
func unixMS(t time.Time) float64 { return float64(t.UnixMicro()) / 1000 }
