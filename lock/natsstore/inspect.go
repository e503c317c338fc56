// Inspect, ForceRelease, SetMetadata, List and Import.

package natsstore

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Inspect implements [driver.Store]. Info.Token is 0 a second after the lock was released.
func (s *Store) Inspect(ctx context.Context, key string) (driver.Info, error) {
	var info driver.Info
	err := s.call(ctx, driver.Exclusive, "inspect", func(ctx context.Context) error {
		cur, err := s.last(ctx, key)
		if err != nil {
			return err
		}
		info.Token = cur.Token
		switch {
		case cur.isFree():
		case cur.State == kept:
			info.FreeIn = cur.left(s.serverNow(ctx))
		default:
			info.Held = 1
			info.Holders = []driver.Holder{{
				Mode: driver.Exclusive, Token: cur.Token, ExpiresIn: cur.left(s.serverNow(ctx)),
				Metadata: string(cur.Metadata), Client: driver.ClientName(cur.Owner),
			}}
		}
		return nil
	})
	return info, err
}

// ForceRelease implements [driver.Store].
func (s *Store) ForceRelease(ctx context.Context, key string) error {
	return s.call(ctx, driver.Exclusive, "force release", func(ctx context.Context) error {
		var seen entry
		_, err := s.replace(ctx, key, attempts{}, func(cur entry) (record, time.Duration, error) {
			if cur.isFree() || seen.seq != 0 && (cur.Token != seen.Token || cur.State != seen.State) { // the holder is gone
				return record{}, 0, driver.ErrNotHeld
			}
			seen = cur
			return record{State: free, Token: cur.Token}, markerTTL, nil
		})
		return s.announced(key, err)
	})
}

// SetMetadata implements [driver.Store]. The expiry of the lease may move forward by up to a
// second, because the server counts seconds. That of a lease whose last message this Store has not
// sent may move by up to its TTL.
func (s *Store) SetMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	return s.call(ctx, l.Mode, "set metadata", func(ctx context.Context) error {
		_, err := s.rewrite(ctx, l, func(r *record) { r.Metadata = []byte(metadata) })
		return err
	})
}

// rewrite publishes the last message of a lease again, with a change, and returns its sequence.
func (s *Store) rewrite(ctx context.Context, l driver.Lease, change func(*record)) (seq uint64, err error) {
	var rec record
	var left time.Duration
	done, err := s.replace(ctx, l.Key, attempts{}, func(cur entry) (record, time.Duration, error) {
		if !cur.isOf(l) {
			return record{}, 0, driver.ErrNotHeld
		}
		left, rec = stateOf(l).rest(cur), cur.record
		rec.TTL = left.Milliseconds()
		change(&rec)
		return rec, left, nil
	})
	if err != nil {
		return 0, notHeld(err)
	}
	stateOf(l).stored(done.cur.seq, done.seq, rec.Metadata, done.sent, left)
	return done.seq, nil
}

// listed is the number of messages that one call of List reads.
const listed = 1000

// List implements [driver.Store]. The cursor is the sequence of the next message. A renewal gives a
// lock a higher sequence, so a lock may be returned twice.
func (s *Store) List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	seq := uint64(1)
	if cursor != "" {
		if seq, err = strconv.ParseUint(cursor, 10, 64); err != nil {
			return nil, "", fmt.Errorf("natsstore: List: bad cursor %q", cursor)
		}
	}
	var messages []*jetstream.RawStreamMsg
	more := false
	err = s.call(ctx, driver.Exclusive, "list", func(ctx context.Context) (err error) {
		if messages, more, err = s.read(ctx, seq); err != nil {
			err = contextCause(ctx, err)
		}
		return err
	})
	if err != nil {
		return nil, "", err
	}
	for _, m := range messages {
		seq = m.Sequence + 1
		key, foreign := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(m.Subject, s.prefix+".k."))
		e, bad := decode(m)
		if foreign == nil && bad == nil && len(key) > 0 && strings.HasPrefix(string(key), prefix) && !e.isFree() {
			keys = append(keys, string(key))
		}
	}
	if !more {
		return keys, "", nil
	}
	return keys, strconv.FormatUint(seq, 10), nil
}

// read returns the first messages of locks from a sequence on, and whether there are more.
func (s *Store) read(ctx context.Context, seq uint64) (messages []*jetstream.RawStreamMsg, more bool, err error) {
	consumer, err := s.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq,
		FilterSubject: s.prefix + ".k.*", MemoryStorage: true, Replicas: 1, InactiveThreshold: consumerTTL,
	})
	if err != nil {
		return nil, false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = s.stream.DeleteConsumer(ctx, consumer.CachedInfo().Name) // otherwise the server does after consumerTTL
	}()
	batch, err := consumer.FetchNoWait(listed)
	if err != nil {
		return nil, false, err
	}
	for {
		var m jetstream.Msg
		var open bool
		select {
		case m, open = <-batch.Messages():
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
		if !open {
			return messages, more, batch.Error()
		}
		at, err := m.Metadata()
		if err != nil {
			return nil, false, err
		}
		messages = append(messages, &jetstream.RawStreamMsg{Subject: m.Subject(), Sequence: at.Sequence.Stream, Data: m.Data(), Time: at.Timestamp})
		more = at.NumPending > 0
	}
}

// Import implements [driver.Store]. Another process needs nothing but the fields of the lease.
func (s *Store) Import(l driver.Lease) (driver.Lease, error) {
	switch {
	case l.Mode != driver.Exclusive:
		return driver.Lease{}, errors.ErrUnsupported
	case l.Token == 0:
		return driver.Lease{}, errors.New("natsstore: Import: the lease has no token")
	}
	l.State = nil
	return l, nil
}
