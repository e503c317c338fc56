// The state that a holder leaves to the next one.

package natsstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// savedState is the last message of the subject of a state: token, number and data, with spaces between.
// An empty message is no state.
type savedState struct {
	driver.Saved
	number uint64 // of the save
	seq    uint64 // 0 if there is no message
}

var errNoState = errors.New("the subject of the state holds something else")

func parseState(seq uint64, payload []byte) (savedState, error) {
	if len(payload) == 0 {
		return savedState{seq: seq}, nil
	}
	fields := bytes.SplitN(payload, []byte(" "), 3)
	if len(fields) < 3 {
		return savedState{}, errNoState
	}
	token, bad1 := strconv.ParseUint(string(fields[0]), 10, 64)
	number, bad2 := strconv.ParseUint(string(fields[1]), 10, 64)
	if errors.Join(bad1, bad2) != nil {
		return savedState{}, errNoState
	}
	return savedState{Saved: driver.Saved{Token: token, Data: fields[2]}, number: number, seq: seq}, nil
}

// stateSubject returns the subject of a state. It is among those of tombstones, so that neither the stream
// nor the rights of users need more than locks do. No name of an owner is encoded with "=".
func (s *Store) stateSubject(key string) string { return s.prefix + ".x.=" + encodeName(key) }

// stateMessage returns a message for the subject of a state that lasts for ttl.
func (s *Store) stateMessage(key string, payload []byte, ttl time.Duration) *nats.Msg {
	m := nats.NewMsg(s.stateSubject(key))
	m.Data = payload
	m.Header.Set(jetstream.MsgTTLHeader, serverTTL(ttl).String())
	return m
}

// expect makes the server refuse a message unless seq is the last one of a subject, in the same step.
func expect(m *nats.Msg, subject string, seq uint64) {
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, fmt.Sprint(seq))
	m.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, subject)
}

// readState returns the state of a key as it is during the call. A leader that has been replaced may
// answer a read. So readState also publishes a message that the leader refuses if the state has changed.
func (s *Store) readState(ctx context.Context, key string) (savedState, error) {
	subject := s.stateSubject(key)
	for a := (attempts{}); ; {
		var st savedState
		m, err := s.stream.GetLastMsgForSubject(ctx, subject)
		switch {
		case err == nil:
			if st, err = parseState(m.Sequence, m.Data); err != nil {
				return savedState{}, err
			}
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return savedState{}, fmt.Errorf("read the state: %w", contextCause(ctx, err))
		}
		if err := a.next(ctx, st.seq); err != nil {
			return savedState{}, err
		}
		confirm := nats.NewMsg(s.prefix + ".x." + probe)
		confirm.Header.Set(jetstream.MsgTTLHeader, markerTTL.String())
		expect(confirm, subject, st.seq)
		if _, err = s.publish(ctx, confirm); !errors.Is(err, errConflict) {
			return st, err
		}
	}
}

// withState adds the state to a lease for a request that asks for it. An error of it does not match
// driver.ErrNotSent, because the lock was granted.
func (s *Store) withState(ctx context.Context, l driver.Lease) (driver.Lease, error) {
	if !l.Stateful() {
		return l, nil
	}
	st, err := s.readState(ctx, l.Key)
	if err != nil {
		return driver.Lease{}, err
	}
	l.Saved = &st.Saved
	return l, nil
}

// Save implements [driver.Store]. The TTL is rounded up to seconds, and the server removes the state up to
// two seconds later. The server accepts the message of a state only while the last message of the lock is
// that of the lease, so a save that is executed after a renewal or after the end of the lease changes nothing.
//
// A replicated stream refuses renewals while a save is not stored yet. So Save waits for the renewals
// under way: one that meets a save gets through before the next save begins.
func (s *Store) Save(ctx context.Context, l driver.Lease, number uint64, data []byte, ttl time.Duration) error {
	return s.call(ctx, l.Mode, "save", func(ctx context.Context) error { return s.save(ctx, l, number, data, ttl) })
}

func (s *Store) save(ctx context.Context, l driver.Lease, number uint64, data []byte, ttl time.Duration) error {
	state := stateOf(l)
	if state == nil || state.saving == nil { // the grant was not for a request that is Stateful
		state = &leaseState{owner: l.Owner, token: l.Token, unsure: true, saving: make(chan struct{}, 1)}
		l.State = state
	}
	select {
	case state.saving <- struct{}{}:
		defer func() { <-state.saving }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	payload := fmt.Appendf(nil, "%d %d %s", l.Token, number, data)
	for range maxConflicts {
		if err := state.awaitRenewals(ctx); err != nil {
			return err
		}
		seq, err := s.sureSeq(ctx, l, state)
		if err != nil {
			return err
		}
		if state.saved >= number {
			cur, err := s.last(ctx, l.Key)
			if err == nil && !cur.isOf(l) {
				err = driver.ErrNotHeld
			}
			return notHeld(err)
		}
		m := s.stateMessage(l.Key, payload, ttl)
		expect(m, s.subject(l.Key), seq)
		if _, err = s.publish(ctx, m); err == nil {
			state.saved = number
			return nil
		}
		state.doubt()
		if !errors.Is(err, errConflict) {
			return err
		}
	}
	return fmt.Errorf("%d attempts met other requests", maxConflicts)
}

// sureSeq returns the sequence of the last message of a lease, after which no save without an answer can be
// executed. If the state may have changed without the knowledge of this lease, it publishes the lock
// again and reads the state after that message: the server refuses all earlier saves then.
func (s *Store) sureSeq(ctx context.Context, l driver.Lease, state *leaseState) (uint64, error) {
	if seq, sure := state.last(); sure {
		return seq, nil
	}
	seq, err := s.rewrite(ctx, l, func(*record) {})
	if err != nil {
		return 0, err
	}
	st, err := s.readState(ctx, l.Key)
	if err != nil {
		return 0, err
	}
	if st.Token == l.Token {
		state.saved = st.number
	}
	state.trust(seq)
	return seq, nil
}

// Forget implements [driver.Store]. A stream cannot delete without another right, so Forget
// publishes an empty message, which stays for a second.
func (s *Store) Forget(ctx context.Context, key string) error {
	return s.call(ctx, driver.Exclusive, "forget", func(ctx context.Context) error {
		_, err := s.publish(ctx, s.stateMessage(key, nil, markerTTL))
		return err
	})
}
