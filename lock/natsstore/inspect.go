// Inspect, ForceRelease, SetMetadata, List and Import.

package natsstore

import (
	"context"
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
	if err := s.begin(ctx, driver.Exclusive); err != nil {
		return driver.Info{}, err
	}
	bounded, cancel := bound(ctx, s.bound)
	defer cancel()
	cur, err := s.last(bounded, key)
	if err != nil {
		return driver.Info{}, s.failed(ctx, "inspect", key, err)
	}
	info := driver.Info{Token: cur.Token}
	switch {
	case cur.isFree():
	case cur.State == kept:
		info.FreeIn = cur.left(s.serverNow(bounded))
	default:
		info.Held = 1
		info.Holders = []driver.Holder{{
			Mode: driver.Exclusive, Token: cur.Token, ExpiresIn: cur.left(s.serverNow(bounded)),
			Metadata: string(cur.Metadata), Client: driver.ClientName(cur.Owner),
		}}
	}
	return info, nil
}

// ForceRelease implements [driver.Store].
func (s *Store) ForceRelease(ctx context.Context, key string) error {
	bounded, cancel := bound(ctx, s.bound)
	defer cancel()
	return s.failed(ctx, "force the release of", key, s.forceRelease(bounded, key))
}

func (s *Store) forceRelease(ctx context.Context, key string) error {
	if err := s.begin(ctx, driver.Exclusive); err != nil {
		return err
	}
	cur, err := s.last(ctx, key)
	for a := (attempts{}); ; {
		switch {
		case err != nil:
			return err
		case cur.isFree():
			return driver.ErrNotHeld
		}
		if err := a.next(ctx, cur.seq); err != nil {
			return err
		}
		_, err = s.publish(ctx, s.message(key, record{State: free, Token: cur.Token}, markerTTL, cur.seq, ""))
		if err == nil {
			s.announce(key)
		}
		if !errors.Is(err, errConflict) {
			return err
		}
		token, state := cur.Token, cur.State
		if cur, err = s.last(ctx, key); err == nil && (cur.Token != token || cur.State != state) {
			return driver.ErrNotHeld // the holder that this call saw is gone
		}
	}
}

// SetMetadata implements [driver.Store]. The expiry of the lease may move forward by up to a
// second, because the server counts seconds. That of a lease whose last message this Store has not
// sent may move by up to its TTL.
func (s *Store) SetMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	bounded, cancel := bound(ctx, s.bound)
	defer cancel()
	return s.failed(ctx, "set the metadata of", l.Key, s.setMetadata(bounded, l, metadata))
}

func (s *Store) setMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	if err := s.begin(ctx, l.Mode); err != nil {
		return err
	}
	_, err := s.rewrite(ctx, l, func(r *record) { r.Metadata = []byte(metadata) })
	return err
}

// rewrite publishes the last message of a lease again, with a change, and returns its sequence.
func (s *Store) rewrite(ctx context.Context, l driver.Lease, change func(*record)) (seq uint64, err error) {
	for a := (attempts{}); ; {
		cur, err := s.held(ctx, l)
		if err == nil {
			err = a.next(ctx, cur.seq)
		}
		if err != nil {
			return 0, err
		}
		left := stateOf(l).rest(cur)
		rec := cur.record
		rec.TTL = left.Milliseconds()
		change(&rec)
		sent := time.Now()
		ack, err := s.publish(ctx, s.message(l.Key, rec, left, cur.seq, ""))
		if err == nil {
			if state := stateOf(l); state != nil {
				state.stored(cur.seq, ack.Sequence, rec.Metadata, sent, left)
			}
			return ack.Sequence, nil
		}
		if !errors.Is(err, errConflict) {
			return 0, err
		}
	}
}

// held returns the last message of a lease. The error is driver.ErrNotHeld if its owner and token do not
// hold the lock.
func (s *Store) held(ctx context.Context, l driver.Lease) (entry, error) {
	cur, err := s.last(ctx, l.Key)
	switch {
	case err != nil && !errors.Is(err, driver.ErrWrongType):
		return entry{}, err
	case err != nil || !cur.heldBy(l.Owner) || cur.Token != l.Token:
		return entry{}, driver.ErrNotHeld
	}
	return cur, nil
}

// listed is the number of messages that one call of List reads.
const listed = 1000

// List implements [driver.Store]. The cursor is the sequence of the next message. A renewal gives a
// lock a higher sequence, so a lock may be returned twice.
func (s *Store) List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	if err := s.begin(ctx, driver.Exclusive); err != nil {
		return nil, "", err
	}
	seq := uint64(1)
	if cursor != "" {
		if seq, err = strconv.ParseUint(cursor, 10, 64); err != nil {
			return nil, "", fmt.Errorf("natsstore: List: bad cursor %q", cursor)
		}
	}
	bounded, cancel := bound(ctx, s.bound)
	defer cancel()
	messages, more, err := s.read(bounded, seq)
	if err != nil {
		return nil, "", fmt.Errorf("natsstore: list: %w", because(s.js, s.of, contextCause(bounded, err)))
	}
	for _, m := range messages {
		seq = m.Sequence + 1
		key, err := decodeName(strings.TrimPrefix(m.Subject, s.prefix+".k."))
		if err != nil || !strings.HasPrefix(key, prefix) {
			continue
		}
		if e, err := decode(m); err == nil && !e.isFree() {
			keys = append(keys, key)
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
