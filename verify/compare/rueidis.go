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
		lockKey: "rueidislock:0:%s",
		note:    "KeyMajority 1 and NoLoopTracking, as in its README",
	}}
}

func openRueidis(_ context.Context, addrs []string) (acquirer, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: addrs},
		KeyValidity:    lease,
		KeyMajority:    1,
		NoLoopTracking: true,
	})
	return func(ctx context.Context, key string) (*grant, error) {
		// The context of a lock ends with the context that it was acquired with, so the wait is bounded by a
		// context of its own.
		parent, end := context.WithCancel(context.Background())
		stop := context.AfterFunc(ctx, end)
		work, cancel, err := locker.WithContext(parent, key)
		stop()
		if err != nil {
			end()
			return nil, err
		}
		return &grant{holds: func() bool { return work.Err() == nil }, release: func(context.Context) error {
			cancel()
			return nil
		}}, nil
	}, err
}
