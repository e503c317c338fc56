// Acquiring and renewing locks in the modes other than Exclusive.

package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

// modes has the letter for each mode in the scripts of shared locks.
var modes = [...]string{driver.Read: "r", driver.Write: "w", driver.Permit: "p", driver.Members: "m"}

// sendAcquireShared is sendAcquire for all modes except Exclusive.
func (s *Store) sendAcquireShared(ctx context.Context, r driver.Request, place time.Duration) (acquired, error) {
	count, packed := requestArgs(&r)
	reply, err := s.runAcquireShared(ctx, &r, place, count, packed)
	if err != nil {
		return acquired{}, err
	}
	return parseAcquired(false, reply)
}

// sendPoll is sendAcquire for an owner that has a place. It sends the members again only if
// the server has forgotten them.
func (s *Store) sendPoll(ctx context.Context, r driver.Request, place time.Duration) (acquired, error) {
	if r.Mode != driver.Members {
		return s.sendAcquire(ctx, r, place)
	}
	reply, err := s.runAcquireShared(ctx, &r, place, strconv.Itoa(len(r.Members())), "")
	if err == nil && isUnsent(reply.Value) {
		return s.sendAcquireShared(ctx, r, place)
	}
	if err != nil {
		return acquired{}, err
	}
	return parseAcquired(false, reply)
}

// runAcquireShared runs the acquire script of shared locks.
func (s *Store) runAcquireShared(ctx context.Context, r *driver.Request, place time.Duration, count, packed string) (redisconn.Reply, error) {
	k := s.sharedKeys(r.Key, r.Owner)
	owner, metadata := wireOwner(r), r.Metadata()
	reply, err := s.redis.Run(ctx, sharedAcquireScript, r.Owner, []any{
		nil, nil, 7, &k.lock, &k.token, &k.queue, &k.places, &k.records, &k.members, &k.tombstone,
		&owner, r.TTL.Milliseconds(), place.Milliseconds(), tokenTTL.Milliseconds(),
		modes[r.Mode], count, &metadata, &packed,
	})
	reply.Value = s.result(ctx, k.lock, reply.Value)
	return reply, err
}

// requestArgs returns the arguments that depend on the mode: the limit and the number of
// permits, or the number of members and the packed members.
func requestArgs(r *driver.Request) (count, packed string) {
	switch {
	case r.Mode == driver.Members:
		return strconv.Itoa(len(r.Members())), packMembers(r.Members())
	case r.Mode == driver.Permit && r.Permits() > 1:
		return strconv.Itoa(r.Limit()) + "/" + strconv.Itoa(r.Permits()), ""
	}
	return strconv.Itoa(r.Limit()), ""
}

// checkArgs refuses limits and members that no shared lock allows.
func checkArgs(r *driver.Request) error {
	switch {
	case r.Mode == driver.Permit && r.Limit() < 1:
		return fmt.Errorf("the limit of permits must be at least 1, got %d", r.Limit())
	case r.Mode == driver.Permit && r.Permits() > r.Limit():
		return fmt.Errorf("a request for %d permits exceeds the limit of %d", r.Permits(), r.Limit())
	case r.Mode == driver.Members:
		return checkMembers(r.Members())
	}
	return nil
}

func checkMembers(members []string) error {
	if len(members) == 0 || len(members) > driver.MaxMembers {
		return fmt.Errorf("%w: there must be 1 to %d members, got %d", driver.ErrBadMembers, driver.MaxMembers, len(members))
	}
	size := 0
	for _, m := range members {
		if m == "" {
			return fmt.Errorf("%w: one is empty", driver.ErrBadMembers)
		}
		size += len(m)
	}
	if size > driver.MaxMemberBytes {
		return fmt.Errorf("%w: their names have %d bytes in all, the limit is %d", driver.ErrBadMembers, size, driver.MaxMemberBytes)
	}
	return nil
}

// packMembers returns the members in one text, one in a line.
func packMembers(members []string) string {
	var b strings.Builder
	size := 0
	for _, m := range members {
		size += len(m) + 1
	}
	b.Grow(size)
	for _, m := range members {
		if strings.ContainsAny(m, "\n\\") {
			m = oneLine.Replace(m)
		}
		b.WriteString(m)
		b.WriteByte('\n')
	}
	return b.String()
}

var oneLine = strings.NewReplacer("\\", `\\`, "\n", `\n`)
