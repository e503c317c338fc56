// Inspect, ForceRelease and ReportEvents.

package redisson

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

// maxHolders is the number of holders that Inspect shows, the same for all stores.
const maxHolders = 16

// Inspect implements [driver.Store]. It shows a lock of any kind, whatever the Kind of the store.
// Client is the ClientName of a Go owner, and the beginning of the client id of a Redisson owner.
// Holders are in the order of the hash on the server. Token is 0 unless the store is of kind
// KindFencedLock. The places of waiters are known for an RFairLock only.
func (s *Store) Inspect(ctx context.Context, key string) (driver.Info, error) {
	info, err := s.inspect(ctx, key)
	return info, failed("inspect", err)
}

func (s *Store) inspect(ctx context.Context, key string) (driver.Info, error) {
	name, err := s.nameOf(key)
	if err != nil {
		return driver.Info{}, err
	}
	reply, err := s.run(ctx, call{
		script: inspectScript,
		keys:   []string{name, tokenKey(name), queueKey(name)},
		args:   []any{readerPrefix(name), metadataPrefix(name)},
	}, "")
	if err != nil {
		return driver.Info{}, err
	}
	return s.parseInfo(reply.Value)
}

// parseInfo reads the reply of the inspect script.
func (s *Store) parseInfo(reply any) (driver.Info, error) {
	items, ok := reply.([]any)
	if !ok || len(items) != 6 {
		return driver.Info{}, rediskit.UnexpectedReply(reply)
	}
	holders, okHolders := items[1].([]any)
	token, okToken := items[2].(string)
	waiting, okWaiting := items[3].(int64)
	places, okPlaces := items[4].([]any)
	mode, okMode := items[5].(string)
	if !okHolders || !okToken || !okWaiting || !okPlaces || !okMode || len(holders)%3 != 0 || len(places)%2 != 0 {
		return driver.Info{}, rediskit.UnexpectedReply(reply)
	}
	var info driver.Info
	if s.options.Kind == KindFencedLock && token != "" {
		n, err := strconv.ParseUint(token, 10, 63)
		if err != nil {
			return driver.Info{}, driver.ErrWrongType
		}
		info.Token = n
	}
	info.Waiting = int(waiting)
	for ; len(places) > 0; places = places[2:] {
		owner, okOwner := places[0].(string)
		metadata, okMetadata := places[1].(string)
		if !okOwner || !okMetadata {
			return driver.Info{}, rediskit.UnexpectedReply(reply)
		}
		info.Places = append(info.Places, driver.Place{Metadata: metadata, Client: clientName(owner)})
	}
	for ; len(holders) > 0; holders = holders[3:] {
		owner, okOwner := holders[0].(string)
		ms, okMS := holders[1].(int64)
		metadata, okMetadata := holders[2].(string)
		if !okOwner || !okMS || !okMetadata {
			return driver.Info{}, rediskit.UnexpectedReply(reply)
		}
		if info.Held++; info.Held > maxHolders {
			continue
		}
		h := driver.Holder{ExpiresIn: max(millis(ms), time.Millisecond), Metadata: metadata, Token: info.Token}
		switch {
		case mode == "":
		case strings.HasSuffix(owner, ":write"):
			h.Mode = driver.Write
		default:
			h.Mode = driver.Read
		}
		h.Client = clientName(owner)
		info.Holders = append(info.Holders, h)
	}
	return info, nil
}

// ForceRelease implements [driver.Store], as forceUnlock does in Redisson. It frees a lock of any
// kind. Redisson does not notify the holder: its unlock fails.
func (s *Store) ForceRelease(ctx context.Context, key string) error {
	return failed("force release", s.forceRelease(ctx, key))
}

func (s *Store) forceRelease(ctx context.Context, key string) error {
	name, err := s.nameOf(key)
	if err != nil {
		return err
	}
	publish, err := s.publishCommand(ctx, name)
	if err != nil {
		return err
	}
	reply, err := s.run(ctx, call{
		script: forceScript,
		keys:   []string{name, lockChannel(name), rwChannel(name), queueKey(name), placesKey(name)},
		args:   []any{publish},
	}, "")
	if err != nil {
		return err
	}
	return rediskit.ParseDone(reply.Value)
}

// ReportEvents implements [driver.Store].
func (s *Store) ReportEvents(report func(renewal.Event)) { rediskit.ReportEvents(s.redis, report) }
