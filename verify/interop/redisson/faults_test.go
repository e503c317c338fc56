package redisson

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/verify/interop/internal/report"
)

func TestKilled(t *testing.T) {
	t.Parallel()
	p := newPair(t, shortWait)
	p.run("Go", killedGo)
	p.run("the JVM", killedJVM) // the last one, because the peer has ended then
}

// killedGo kills a Go process that holds a lock of each kind and waits for a fair one. The peer gets
// the locks when the leases end, and a waiter behind the dead one is served.
func killedGo(p *pair) {
	p.java.do("holder", "lock", "fair", "go queue", "-1")
	holder := p.startHolder("go ")
	p.queued("go queue", 1)
	behind := p.java.start("behind", "lock", "fair", "go queue", "-1")
	p.queued("go queue", 2)
	p.java.do("reader", "lock", "read", "go read", "-1")
	waiting := make(map[string]chan answer)
	for _, kind := range all {
		waiting[kind] = p.java.start(kind, "lock", rival(kind), "go "+kind, "-1")
		p.awaitWaiter("go " + kind)
		p.java.pending(waiting[kind])
	}
	require.NoError(p, holder.Process.Kill())
	_ = holder.Wait()
	p.java.do("reader", "unlock", "read", "go read")
	p.java.do("holder", "unlock", "fair", "go queue")
	for _, kind := range all {
		p.java.await(waiting[kind], kind)
		p.java.do(kind, "unlock", rival(kind), "go "+kind)
	}
	p.java.await(behind, "behind a dead waiter")
	p.java.do("behind", "unlock", "fair", "go queue")
}

// startHolder starts a process that is this program, and waits until it holds its locks.
func (p *pair) startHolder(prefix string) *exec.Cmd {
	p.Helper()
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), holdEnv+"="+p.server.Addr()+" "+prefix)
	holder.Stderr = os.Stderr
	output, err := holder.StdoutPipe()
	require.NoError(p, err)
	require.NoError(p, holder.Start())
	p.Cleanup(func() { _ = holder.Process.Kill() })
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(p, err)
	require.Equal(p, "locked\n", line)
	return holder
}

// killedJVM is killedGo with the sides exchanged.
func killedJVM(p *pair) {
	holder := p.lock("fair", "java queue")
	dead := p.java.start("waiter", "lock", "fair", "java queue", "-1")
	p.queued("java queue", 1)
	_, clients := p.more()
	behind := p.later(clients["fair"].Mutex("java queue"))
	p.queued("java queue", 2)
	waiting := make(map[string]chan granted)
	reader := p.lock("read", "java read")
	for _, kind := range all {
		p.java.do(kind, "lock", kind, "java "+kind, "-1")
		waiting[kind] = p.later(locker(clients, rival(kind), "java "+kind))
		p.awaitWaiter("java " + kind)
		assert.Empty(p, waiting[kind], kind)
	}
	p.java.pending(dead)
	p.java.kill()
	p.unlock(reader)
	p.unlock(holder)
	for _, kind := range all {
		p.unlock(p.get(waiting[kind], time.Minute).held)
	}
	p.unlock(p.get(behind, time.Minute).held)
}

// lostReplies resets the connections of the Go side while both sides contend.
func lostReplies(p *pair) {
	proxy := testredis.StartProxy(p, p.server)
	proxy.Delay(2 * time.Millisecond) // most resets lose a reply
	q := *p
	q.rdb = proxy.Client(p)
	_, clients := q.more()
	rounds := report.Rounds(20)
	done := p.java.start("a", "contend", "lock", "lost", "counter lost", strconv.Itoa(rounds))
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				proxy.Reset()
			}
		}
	}()
	failures := 0
	for added := 0; added < rounds; {
		h, err := clients["lock"].Mutex("lost").Lock(p.Context())
		if err != nil {
			failures++
			continue
		}
		p.addHeld("counter lost")
		added++
		if err := h.Unlock(p.Context()); err != nil {
			failures++ // the client releases it in the background
		}
	}
	close(stop)
	<-stopped
	p.java.await(done, "contend")
	report.Note("%d calls of Go failed in %d rounds while replies were lost", failures, rounds)
	assert.Equal(p, 2*rounds, p.value("counter lost"), "two holders at one time lose an addition")
}

// TestLostRepliesOfTheJVM resets the connections of the peer. Its counters are behind no proxy. It locks
// for a time of its own, because Redisson repeats a request whose reply is lost, which adds to the hold
// count, and its watchdog would then renew a lock that nobody unlocks.
func TestLostRepliesOfTheJVM(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t, logAll...)
	proxy := testredis.StartProxy(t, server)
	java := startPeer(t, peerOptions{
		addr: "single:" + proxy.Client(t).Options().Addr, counters: "single:" + server.Addr(), fairWait: fairWait,
	})
	p := (&pair{T: t, server: server, rdb: server.Client(t), wait: fairWait, java: java}).withClients()
	p.run("of unlocks", func(p *pair) { lostUnlocks(p, proxy) })
	p.run("of a lock", func(p *pair) { lostLock(p, proxy) })
}

// lostUnlocks delays replies to the peer, and resets its connections while Go holds the lock after it.
// Most resets lose the reply to the unlock.
func lostUnlocks(p *pair, proxy *testredis.Proxy) {
	proxy.Delay(5 * time.Millisecond)
	const rounds = 8 // an unlock without a reply takes Redisson three seconds
	done := p.java.start("a", "insist", "lock", "lost", "counter lost", strconv.Itoa(rounds), millis(2*watchdog))
	began, ours, theirs := time.Now(), 0, 0
	for ; len(done) == 0 && time.Since(began) < limit; ours++ {
		h := p.lock("lock", "lost")
		if n := p.value("counter lost") - ours; n > theirs {
			theirs = n
			proxy.Reset()
		}
		p.addHeld("counter lost")
		p.unlock(h)
	}
	failures := p.java.await(done, "insist")
	report.Note("%s calls of the JVM failed in %d rounds while replies were lost", failures, rounds)
	assert.Equal(p, rounds+ours, p.value("counter lost"), "two holders at one time lose an addition")
	p.unlock(p.get(p.later(p.locker("lock", "lost")), time.Minute).held)
}

// lostLock loses the reply to a lock. Redisson repeats the request or fails. Either way, Go gets the lock
// after the peer has unlocked it, at the latest when its lease ends.
func lostLock(p *pair, proxy *testredis.Proxy) {
	proxy.Delay(watchdog)
	acquired := p.java.start("a", "lock", "lock", "lost lock", millis(2*watchdog))
	require.Eventually(p, func() bool { return p.rdb.Exists(p.Context(), "lost lock").Val() == 1 }, time.Minute, time.Millisecond)
	proxy.Delay(0)
	proxy.Reset()
	p.refused("lock", "lost lock")
	if a := <-acquired; a.kind == "ok" {
		<-p.java.start("a", "unlock", "lock", "lost lock")
	}
	p.unlock(p.get(p.later(p.locker("lock", "lost lock")), time.Minute).held)
}
