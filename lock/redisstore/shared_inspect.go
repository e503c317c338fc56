// Inspect and ForceRelease in the modes other than Exclusive.

package redisstore

import (
	"context"
	"slices"
	"strconv"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// inspectShared reads a lock in one of the shared modes. The result seen is the highest
// token of the lock that the server knows.
func (s *Store) inspectShared(ctx context.Context, key string) (info driver.Info, seen uint64, err error) {
	k := s.sharedKeys(key, "")
	reply, err := s.redis.Run(ctx, sharedInspectScript, "", []any{nil, nil, 5, &k.lock, &k.token, &k.queue, &k.places, &k.records})
	if err != nil {
		return driver.Info{}, 0, err
	}
	return parseShared(reply.Value)
}

// forceShared takes a lock in one of the shared modes from its present holders. One
// script handles a part of them.
func (s *Store) forceShared(ctx context.Context, key string) error {
	_, seen, err := s.inspectShared(ctx, key)
	if err != nil {
		return err
	}
	k := s.sharedKeys(key, "")
	total := int64(0)
	for cursor := "0"; cursor != ""; {
		from := cursor
		reply, err := s.redis.Run(ctx, sharedForceScript, "", []any{
			nil, nil, 6, &k.lock, &k.token, &k.queue, &k.places, &k.records, &k.members, seen, tokenTTL.Milliseconds(), &from,
		})
		if err != nil {
			return err
		}
		var done int64
		if done, cursor, err = parseForced(s.result(ctx, k.lock, reply.Value)); err != nil {
			return err
		}
		total += done
	}
	if total == 0 {
		return driver.ErrNotHeld
	}
	return nil
}

// parseForced reads the reply of the force script of shared locks: the number of leases that
// it took away, and the cursor of the next call. The cursor of the last call is empty.
func parseForced(reply any) (done int64, cursor string, err error) {
	items, ok := reply.([]any)
	if !ok || len(items) != 2 {
		return 0, "", rediskit.UnexpectedReply(reply)
	}
	cursor, ok = items[1].(string)
	if _, bad := strconv.ParseUint(cursor, 10, 64); !ok || cursor != "" && bad != nil {
		return 0, "", rediskit.UnexpectedReply(reply)
	}
	done, err = parseCode(items[0], maxToken)
	return done, cursor, err
}

// parseShared reads the reply of the inspect script of shared locks.
func parseShared(reply any) (info driver.Info, seen uint64, err error) {
	items, ok := reply.([]any)
	if !ok || len(items) != 7 {
		return driver.Info{}, 0, rediskit.UnexpectedReply(reply)
	}
	held, okHeld := items[0].(int64)
	waiting, okWaiting := items[1].(int64)
	last, okLast := parseTokenOrNone(items[2])
	highest, okHighest := parseTokenOrNone(items[3])
	holders, okHolders := items[4].([]any)
	freeIn, okFree := parseExpiry(items[5])
	places, okPlaces := parseSharedPlaces(items[6])
	if !okHeld || !okWaiting || !okLast || !okHighest || !okHolders || !okFree || !okPlaces || held < int64(len(holders)) || waiting < int64(len(places)) {
		return driver.Info{}, 0, rediskit.UnexpectedReply(reply)
	}
	info = driver.Info{Held: int(held), Waiting: int(waiting), Places: places, Token: last, FreeIn: freeIn}
	for _, item := range holders {
		h, ok := parseHolder(item)
		if !ok {
			return driver.Info{}, 0, rediskit.UnexpectedReply(reply)
		}
		info.Holders = append(info.Holders, h)
	}
	return info, max(last, highest), nil
}

// parseTokenOrNone reads a token, or 0 if there is none.
func parseTokenOrNone(item any) (uint64, bool) {
	if item == nil {
		return 0, true
	}
	return parseToken(item)
}

func parseHolder(item any) (h driver.Holder, ok bool) {
	fields, ok := item.([]any)
	if !ok || len(fields) != 6 {
		return h, false
	}
	token, okToken := parseToken(fields[0])
	expiresIn, okExpiry := parseExpiry(fields[1])
	mode, okMode := parseSharedMode(fields[2])
	count, okCount := fields[3].(int64)
	metadata, okMetadata := fields[4].(string)
	client, okClient := parseClient(fields[5])
	if !okToken || !okExpiry || expiresIn <= 0 || !okMode || !okCount || count < 0 || !okMetadata || !okClient {
		return h, false
	}
	h = driver.Holder{Mode: mode, Token: token, ExpiresIn: expiresIn, Metadata: metadata, Client: client}
	switch h.Mode {
	case driver.Members:
		h.Members = int(count)
	case driver.Permit:
		h.Permits = int(count)
	}
	return h, true
}

// parseSharedPlaces reads the waiters in the reply of the inspect script of shared locks.
func parseSharedPlaces(item any) (places []driver.Place, ok bool) {
	waiters, ok := item.([]any)
	if !ok {
		return nil, false
	}
	for _, item := range waiters {
		fields, ok := item.([]any)
		if !ok || len(fields) != 4 {
			return nil, false
		}
		mode, okMode := parseSharedMode(fields[0])
		metadata, okMetadata := fields[1].(string)
		client, okClient := parseClient(fields[2])
		waited, okWaited := parseExpiry(fields[3])
		if !okMode || !okMetadata || !okClient || !okWaited {
			return nil, false
		}
		places = append(places, driver.Place{Mode: mode, Metadata: metadata, Client: client, Waited: waited})
	}
	return places, true
}

// parseSharedMode reads the letter of a shared mode.
func parseSharedMode(item any) (driver.Mode, bool) {
	letter, ok := item.(string)
	mode := slices.Index(modes[:], letter)
	if !ok || mode < int(driver.Read) {
		return 0, false
	}
	return driver.Mode(mode), true
}

// parseClient reads the part of an owner up to its last colon, and returns the name of the
// client.
func parseClient(item any) (string, bool) {
	client, ok := item.(string)
	return driver.ClientName(client + ":"), ok
}
