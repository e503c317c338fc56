// Inspect, ForceRelease and ReportEvents.

package redlock

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

// Inspect implements [driver.Store]. It shows holders that use other libraries, too. Holder.Client
// is made from a hash of the value of the key, which is a secret. ExpiresIn is 0 for a lock without an expiry.
func (s *Store) Inspect(ctx context.Context, key string) (driver.Info, error) {
	info, _, err := s.inspect(ctx, key)
	return info, failed("inspect", err)
}

func (s *Store) inspect(ctx context.Context, key string) (info driver.Info, owner string, err error) {
	if key == "" {
		return info, "", driver.ErrBadKey
	}
	name := s.prefix + key
	reply, err := s.redis.Run(ctx, inspectScript, "", []any{nil, nil, 1, &name})
	if err != nil {
		return info, "", err
	}
	items, ok := reply.Value.([]any)
	if ok && len(items) == 0 {
		return info, "", nil
	}
	if !ok || len(items) != 2 {
		return info, "", rediskit.UnexpectedReply(reply.Value)
	}
	owner, ok = items[0].(string)
	if !ok {
		return info, "", rediskit.UnexpectedReply(reply.Value)
	}
	left, err := parseLeft(items[1])
	if err != nil {
		return info, "", err
	}
	return driver.Info{Held: 1, Holders: []driver.Holder{{
		Mode: driver.Exclusive, ExpiresIn: left, Client: driver.ClientName(owner),
	}}}, owner, nil
}

// ForceRelease implements [driver.Store]. A first request reads the value of the key, and a second
// one deletes the key if it still has that value.
func (s *Store) ForceRelease(ctx context.Context, key string) error {
	info, owner, err := s.inspect(ctx, key)
	switch {
	case err == nil && info.Held == 0:
		err = driver.ErrNotHeld
	case err == nil:
		l := driver.Lease{Request: driver.Request{Key: key, Owner: owner, TTL: time.Second}} // a release ignores the TTL
		err = s.release(ctx, &l)
	}
	return failed("force release", err)
}

// ReportEvents implements [driver.Store].
func (s *Store) ReportEvents(report func(renewal.Event)) { rediskit.ReportEvents(s.redis, report) }
