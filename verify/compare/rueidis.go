// The adapter of rueidislock.

package main

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func rueidisCandidates() []*candidate {
	return []*candidate{{
		name: "rueidislock", store: redisServer, modules: []string{"github.com/redis/rueidis"}, renews: true, open: openRueidis,
		lockKey: func(key string) string { return "rueidislock:0:" + key },
		note:    "KeyMajority 1 and NoLoopTracking, as in its README",
	}}
}

func openRueidis(_ context.Context, addrs []string) (Client, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: addrs},
		KeyValidity:    lease,
		KeyMajority:    1,
		NoLoopTracking: true,
	})
	return rueidisClient{l}, err
}

type rueidisClient struct{ rueidislock.Locker }

// Acquire implements Client. The context of a lock ends with the context that it was acquired with, so
// the wait is bounded by a context of its own.
func (c rueidisClient) Acquire(ctx context.Context, key string) (Lease, error) {
	parent, end := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, end)
	work, cancel, err := c.WithContext(parent, key)
	stop()
	if err != nil {
		end()
		return nil, err
	}
	return rueidisLease{work, cancel}, nil
}

type rueidisLease struct {
	work   context.Context
	cancel context.CancelFunc
}

// Holds implements Lease.
func (l rueidisLease) Holds() bool { return l.work.Err() == nil }

// Token implements Lease.
func (rueidisLease) Token() uint64 { return 0 }

// Release implements Lease.
func (l rueidisLease) Release(context.Context) error {
	l.cancel()
	return nil
}
