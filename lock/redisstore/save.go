// The state that a holder leaves to the next one.

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// Save implements [driver.Store], in mode Exclusive. The state is in the memory of the server, and like a
// lock it may be lost in a fail-over to a replica that does not have it yet; see Options.Replicas, which
// does not confirm it.
func (s *Store) Save(ctx context.Context, l driver.Lease, number uint64, data []byte, ttl time.Duration) error {
	return failed("save the state of", l.Key, s.save(ctx, l, number, data, ttl))
}

func (s *Store) save(ctx context.Context, l driver.Lease, number uint64, data []byte, ttl time.Duration) error {
	if l.Mode != driver.Exclusive {
		return fmt.Errorf("a state in mode %v: %w", l.Mode, errors.ErrUnsupported)
	}
	st, err := s.stateOf(&l)
	if err != nil {
		return err
	}
	key, token := st.key+stateEnd, strconv.FormatUint(l.Token, 10)
	text := string(data) // a copy, because go-redis may still write it after the call
	reply, err := s.redis.Run(ctx, saveScript, l.Owner, []any{nil, nil, 2, &st.key, &key, &st.value, &token, number, &text, ttl.Milliseconds()})
	if err != nil {
		return err
	}
	return rediskit.ParseDone(reply.Value)
}

// Forget implements [driver.Store].
func (s *Store) Forget(ctx context.Context, key string) error {
	return failed("forget the state of", key, s.forgetState(ctx, key))
}

func (s *Store) forgetState(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	state := s.lockKey(key) + stateEnd
	reply, err := s.redis.Run(ctx, forgetScript, "", []any{nil, nil, 1, &state})
	if err == nil {
		_, err = parseCode(reply.Value, 1)
	}
	return err
}

// parseSaved reads the value of a state: "token number data", or "" if there is none.
func parseSaved(item any) (*driver.Saved, bool) {
	text, ok := item.(string)
	if !ok || text == "" {
		return new(driver.Saved), ok
	}
	first, rest, _ := strings.Cut(text, " ")
	_, data, found := strings.Cut(rest, " ")
	token, ok := parseToken(first)
	return &driver.Saved{Data: []byte(data), Token: token}, ok && found
}
