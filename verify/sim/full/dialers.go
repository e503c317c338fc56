// Dialers and callbacks of go-redis that block, and links that are slow.

package full

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/verify/sim"
)

// isSlow reports whether the links of the process are slow now.
func (p *process) isSlow() bool {
	return p.Plan.RTT > 0 && p.backend.Plan.Slow && time.Since(p.backend.Start) >= p.slowFrom
}

// block blocks like a dialer of the user that ignores its context.
func (p *process) block() {
	const most = 10 * time.Second
	b := p.backend
	b.Mu.Lock()
	isSlow := time.Now().Before(p.slowUntil)
	var d time.Duration
	if isSlow {
		p.blocked++
		d = simrand.New(b.plan.Seed, sim.WideStream+2, uint64(p.ID), uint64(p.blocked)).UpTo(most)
		b.Counts.Faults["blocking dial"]++
	}
	b.Mu.Unlock()
	time.Sleep(d)
}

// onConnect is redis.Options.OnConnect, and blocks too.
func (k *link) onConnect(context.Context, *redis.Conn) error {
	k.process.block()
	return nil
}

// credentials is redis.Options.CredentialsProviderContext, and blocks too.
func (k *link) credentials(context.Context) (username, password string, err error) {
	k.process.block()
	return "", "", nil
}
