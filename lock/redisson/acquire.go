// Acquire and Release, and the checks of their requests.

package redisson

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// Acquire implements [driver.Store]. It does not overtake the waiters of an RFairLock.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	lease, err := s.acquire(ctx, r)
	if err != nil && !errors.As(err, new(*driver.HeldError)) { // a HeldError names the key itself
		err = failed("acquire", err)
	}
	return lease, err
}

func (s *Store) acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	if err := s.checkNew(&r); err != nil {
		return driver.Lease{}, err
	}
	a, err := s.send(ctx, &r, s.newState(&r, 0), false)
	switch {
	case err != nil:
		return driver.Lease{}, err
	case a.verdict == granted:
		return s.lease(&r, a), nil
	case a.verdict == taken:
		return driver.Lease{}, &driver.HeldError{Key: r.Key, ExpiresIn: max(a.left, 0)}
	}
	return driver.Lease{}, s.refusal(a)
}

// refusal returns the error of an answer that is neither a grant nor a report that the lock is taken.
func (s *Store) refusal(a answer) error {
	if a.verdict == tooLong {
		return fmt.Errorf("%w: the writer's lease has %v left, more than a reader may have (Options.WatchdogTTL %v)",
			driver.ErrBadTTL, a.left, s.options.WatchdogTTL)
	}
	return errGivenUp
}

var errGivenUp = fmt.Errorf("%w: the acquisition was given up", driver.ErrNotAcquired)

// send runs the acquire script for the kind and mode. If wait is set, the owner gets a place in the
// queue of an RFairLock that is taken.
func (s *Store) send(ctx context.Context, r *driver.Request, st *leaseState, wait bool) (answer, error) {
	c := call{
		keys: []string{st.name, tombstoneKey(st.name, st.owner), metadataPrefix(st.name) + st.owner},
		args: []any{st.owner, r.TTL.Milliseconds(), r.Metadata()},
	}
	switch {
	case r.Mode != driver.Exclusive:
		publish := ""              // the script publishes nothing for a writer
		if r.Mode == driver.Read { // it may turn a writer into a reader
			var err error
			if publish, err = s.publishCommand(ctx, st.name); err != nil {
				return answer{}, driver.NotSent.Error(err)
			}
		}
		c.script = rwAcquireScript
		c.keys = append(c.keys, st.reader, rwChannel(st.name))
		c.args = append(c.args, r.Mode.String(), readerPrefix(st.name), publish, s.options.WatchdogTTL.Milliseconds())
	case s.options.Kind == KindFairLock:
		place := 0
		if wait {
			place = 1
		}
		c.script = fairAcquireScript
		c.keys = append(c.keys, queueKey(st.name), placesKey(st.name))
		c.args = append(c.args, place, s.options.FairWait.Milliseconds())
	case s.options.Kind == KindFencedLock:
		c.script, c.keys = acquireScript, append(c.keys, st.tokenKey)
	default:
		c.script = acquireScript
	}
	reply, err := s.run(ctx, c, st.owner)
	if err != nil {
		return answer{}, err
	}
	return parseAnswer(reply)
}

// Release implements [driver.Store]. It wakes waiters in all processes; see [Store.Wait].
func (s *Store) Release(ctx context.Context, l driver.Lease) error {
	return failed("release", s.release(ctx, &l))
}

func (s *Store) release(ctx context.Context, l *driver.Lease) error {
	st, err := s.stateOf(l)
	if err != nil {
		return err
	}
	publish, err := s.publishCommand(ctx, st.name)
	if err != nil {
		return err
	}
	var refuse time.Duration
	if l.Unanswered {
		refuse = rediskit.Tombstone
	}
	c := call{
		script: releaseScript,
		keys:   []string{st.name, lockChannel(st.name), tombstoneKey(st.name, st.owner), metadataPrefix(st.name) + st.owner},
		args:   []any{st.owner, publish, refuse.Milliseconds()},
	}
	switch {
	case l.Mode != driver.Exclusive:
		c.script, c.keys[1] = rwReleaseScript, rwChannel(st.name)
		c.keys, c.args = append(c.keys, st.reader), append(c.args, readerPrefix(st.name))
	case s.options.Kind == KindFairLock:
		c.script = fairReleaseScript
		c.keys, c.args = append(c.keys, queueKey(st.name), placesKey(st.name)), append(c.args, s.options.FairWait.Milliseconds())
	}
	reply, err := s.run(ctx, c, st.owner)
	if err != nil {
		return err
	}
	return rediskit.ParseDone(reply.Value)
}

// check refuses requests that this store cannot serve. The client has made further checks.
func (s *Store) check(r *driver.Request) error {
	if _, err := s.nameOf(r.Key); err != nil {
		return err
	}
	switch {
	case r.Owner == "":
		return errors.New("the owner is empty")
	case len(r.Metadata()) > driver.MaxMetadataLen:
		return fmt.Errorf("the metadata are %d bytes long, the limit is %d", len(r.Metadata()), driver.MaxMetadataLen)
	}
	return s.checkTerms(r)
}

// checkNew checks a request for a lease.
func (s *Store) checkNew(r *driver.Request) error {
	if err := s.check(r); err != nil {
		return err
	}
	return s.checkReader(r)
}

// checkReader refuses a reader whose lease may outlast the lock; see [Options.WatchdogTTL]. A release
// is not refused.
func (s *Store) checkReader(r *driver.Request) error {
	if limit := s.options.WatchdogTTL; r.Mode == driver.Read && r.TTL > limit {
		return fmt.Errorf("%w: the TTL of a reader must be at most %v (Options.WatchdogTTL), got %v", driver.ErrBadTTL, limit, r.TTL)
	}
	return nil
}

// checkTerms checks the mode and the TTL.
func (s *Store) checkTerms(r *driver.Request) error {
	switch {
	case r.Mode != driver.Exclusive && (r.Mode > driver.Write || s.options.Kind != KindLock):
		return fmt.Errorf("%v with a store of kind %v: %w", r.Mode, s.options.Kind, errors.ErrUnsupported)
	case r.TTL < time.Millisecond:
		return fmt.Errorf("%w: %v is less than a millisecond", driver.ErrBadTTL, r.TTL)
	}
	return nil
}
