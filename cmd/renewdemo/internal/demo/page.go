// The run behind the web page: the leases, and the faults that visitors inject.

package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// page is a run that is shown on a web page, whose visitors inject the faults. It holds the leases
// until it is interrupted, and takes lost ones again as soon as no fault is under way.
type page struct {
	*demo
	engine schedule.Scheduler
	server *redisServer // nil if the server is not that of the demo
	feed   *feed
	rival  *rival

	mu      sync.Mutex // guards all fields below, and demo.held
	lost    map[int]bool
	active  string   // the fault under way, or ""
	episode *episode // the last fault; nil if there was none
}

const (
	retakeInterval = 250 * time.Millisecond
	stolenKeys     = 10
)

// servePage holds the leases and serves the page until ctx ends.
func servePage(ctx context.Context, c config, s *screen) (err error) {
	var server *redisServer
	if c.store == "" && canStop {
		if exe, err := exec.LookPath("redis-server"); err == nil {
			// A server that is killed and restarted has lost nothing if it has a log, and no fsync delays
			// the writes to the log.
			if server, err = newRedisServer(ctx, exe, "--appendonly", "yes", "--appendfsync", "no"); err != nil {
				return interruptedOr(ctx, err)
			}
			defer server.remove()
			c.store = server.url()
		}
	}
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

	p, closeEngine, err := newPage(b, c, s)
	if err != nil {
		return err
	}
	defer closeEngine()
	p.server = server
	s.line("%s leases with a TTL of %v on %s", count(c.leases), c.ttl, b.Name)
	err = p.acquire(ctx)
	if err == nil {
		s.line("the page is at http://%s/ until Ctrl-C", listener.Addr())
		err = p.serve(ctx, listener)
	}
	p.store.setFault("")
	if err == nil || errors.Is(err, errInterrupted) {
		return p.releaseInterrupted(ctx)
	}
	return errors.Join(err, p.release(ctx))
}

// newPage creates a page with its engine and its client.
func newPage(b *backend, c config, s *screen) (p *page, closeEngine func(), err error) {
	c.steal = min(stolenKeys, c.leases)
	p = &page{lost: map[int]bool{}}
	p.demo = &demo{config: c, screen: s, store: newFaultStore(b, c), prefix: fmt.Sprintf("renewdemo:%08x:", rand.Uint32())}
	if c.engine == "heap" {
		heap, err := heapqueue.NewScheduler(nil)
		if err != nil {
			return nil, nil, err
		}
		p.engine, closeEngine = heap, func() { heap.Close() }
	} else {
		// The first level of a client's own wheel is 512 ticks of TTL/3000 long. Here a turn takes
		// TTL/5, so that the eye can follow, and renewals after TTL/3 use the second level too.
		w, err := wheel.New(&wheel.Options{Tick: max(p.ttl/1200, time.Millisecond), Buckets: 256})
		if err != nil {
			return nil, nil, err
		}
		p.engine, closeEngine = w, func() { w.Close() }
	}
	p.feed, p.rival = newFeed(p), &rival{page: p}
	if err := p.connect(p.engine, &lock.Hooks{Lost: p.told, BatchDone: p.feed.batchDone}); err != nil {
		closeEngine()
		return nil, nil, err
	}
	return p, closeEngine, nil
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

// work contends for the first lock, takes lost locks again, and feeds the visitors, until ctx ends.
func (p *page) work(ctx context.Context) {
	p.feed.mark("has", time.Now(), p.watched().Token())
	var wg sync.WaitGroup
	for _, part := range []func(context.Context){p.retake, p.rival.run, p.feed.run} {
		wg.Go(func() { part(ctx) })
	}
	wg.Wait()
}

// keyOf returns the key of the lock with the given number.
func (p *page) keyOf(i int) string { return p.prefix + strconv.Itoa(i) }

// told is the hook for losses.
func (p *page) told(_ context.Context, info lock.HookInfo) {
	now, lost := time.Now(), lossOf(info)
	i, err := strconv.Atoi(strings.TrimPrefix(info.Key, p.prefix))
	if err != nil {
		return
	}
	end := p.store.heldUntil(info.Key)
	// The last of 10,000 hooks is called tens of milliseconds after its holder was told. Left was
	// measured when that holder was told, against an end that is not after this one.
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
		p.take(ctx, lost)
	}
}

// take tries to take each of the locks once.
func (p *page) take(ctx context.Context, numbers []int) {
	const workers = 32
	work := make(chan int)
	var wg sync.WaitGroup
	for range min(workers, len(numbers)) {
		wg.Go(func() {
			for i := range work {
				h, err := p.client.Mutex(p.keyOf(i)).TryLock(ctx)
				if err != nil {
					continue // it is still held, or the store cannot be reached
				}
				p.mu.Lock()
				p.held[i] = h
				if h.Err() == nil { // it may have been lost before this goroutine got mu, and told
					delete(p.lost, i)
				}
				p.mu.Unlock()
				if i == 0 {
					p.feed.mark("has", time.Now(), h.Token())
				}
			}
		})
	}
	for _, i := range numbers {
		work <- i
	}
	close(work)
	wg.Wait()
}

// watched returns the handle of the lock that the rival waits for.
func (p *page) watched() *lock.Held {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[0]
}

// Faults that a visitor can inject.
const (
	faultHang   = "hang"   // the holders' requests get no answer and are not executed
	faultDrop   = "drop"   // they are executed, but their answers are lost
	faultSteal  = "steal"  // some keys are deleted
	faultPause  = "pause"  // the process is stopped
	faultKill   = "kill"   // the server is killed, and restarted with its data
	faultForget = "forget" // the server is killed, and restarted without its data
)

// unavailable returns why a fault cannot be injected, or "".
func (p *page) unavailable(fault string) string {
	switch fault {
	case faultHang, faultDrop, faultSteal:
		return ""
	case faultPause:
		if !canStop {
			return "needs a Unix system"
		}
		return ""
	case faultKill, faultForget:
		if p.server == nil {
			return "needs a redis-server in PATH and no -store"
		}
		return ""
	}
	return "there is no such fault"
}

var errBusy = errors.New("another fault is under way")

// inject starts a fault. A fault that lasts ends with the same call.
func (p *page) inject(ctx context.Context, fault string) error {
	if why := p.unavailable(fault); why != "" {
		return errors.New(why)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	lasts := fault == faultHang || fault == faultDrop
	switch {
	case lasts && p.active == fault:
		p.end()
		return nil
	case p.active != "":
		return errBusy
	}
	p.active = fault
	p.episode = newEpisode(fault, time.Now(), p.client.Stats().Renewal.Held)
	p.feed.hurry()
	if lasts {
		p.store.setFault(fault)
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
	p.store.setFault("")
}

// play injects a fault that ends by itself, and returns at its end.
func (p *page) play(ctx context.Context, fault string) error {
	switch fault {
	case faultSteal:
		return p.stealKeys(ctx)
	case faultPause:
		if err := sleep(ctx, 3*frameInterval); err != nil { // visitors learn why there is no news
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.episode.Began = unixMS(time.Now())
		if err := p.pauseProcess(); err != nil {
			return err
		}
		p.episode.Resumed, p.episode.Valid = unixMS(p.paused.resumed), p.paused.valid
		return nil
	default:
		p.server.kill()
		if fault == faultForget {
			if err := p.server.forget(); err != nil {
				return err
			}
		}
		if err := sleep(ctx, p.ttl/8); err != nil { // locks survive if the server is away for up to TTL/3
			return err
		}
		if err := p.server.start(ctx); err != nil {
			return err
		}
		p.mu.Lock()
		p.episode.Resumed = unixMS(time.Now())
		p.mu.Unlock()
		return sleep(ctx, p.ttl) // every lease has been renewed, or its holder told
	}
}

// stealKeys deletes the keys of some locks, the watched one first, and returns when all their holders
// were told.
func (p *page) stealKeys(ctx context.Context) error {
	p.mu.Lock()
	numbers := []int{0}
	for _, i := range rand.Perm(p.leases) {
		if len(numbers) == p.steal {
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
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
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
