// Package redisguard keeps values in Redis that only the latest holder of a lock can
// write. Each value is stored with its fencing token, and the script that writes a value
// rejects a lower token.
//
// A value is a hash with the fields "token" and "value". It does not expire.
package redisguard

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock/fence"
)

// A value and its token are fields of one hash, so they cannot be separated. Tokens are
// compared as text, by length first, because Lua numbers are exact to 53 bits only.
//
// The script returns the higher token that is stored, or nil. It fails with WRONGTYPE and
// writes nothing if the key is not a hash. It uses pcall because Redis before version 7
// adds text to errors that call raises.
const compare = `
local seen, token = redis.pcall('HGET', KEYS[1], 'token'), ARGV[1]
if seen and seen.err then
  return seen
end
if seen and (#seen > #token or #seen == #token and seen > token) then
  return seen
end
redis.call('HSET', KEYS[1], 'token', token)
`

var (
	set    = redis.NewScript(compare + "redis.call('HSET', KEYS[1], 'value', ARGV[2]) return false")
	remove = redis.NewScript(compare + "redis.call('HDEL', KEYS[1], 'value') return false")
)

// Guard reads and writes guarded values. The zero Guard is not usable: use New. Its
// methods are safe for concurrent use. Their errors name the key and wrap the errors of
// go-redis, such as WRONGTYPE for a key with other data, which stays unchanged. A nil ctx
// is an error.
type Guard struct {
	rdb redis.UniversalClient
}

// New returns a Guard for a server or cluster. The client still belongs to the caller.
// New does no IO. It panics if the client is nil or a nil pointer.
func New(rdb redis.UniversalClient) *Guard {
	if v := reflect.ValueOf(rdb); rdb == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		panic("redisguard: New of a nil client")
	}
	return &Guard{rdb}
}

// checkUsable returns an error if the Guard or the context cannot be used.
func (g *Guard) checkUsable(ctx context.Context) error {
	switch {
	case g.rdb == nil:
		return errors.New("the Guard was not made by New")
	case ctx == nil:
		return errors.New("the context is nil")
	}
	return nil
}

// Set writes a value. It returns a *fence.StaleError if the key has seen a higher token,
// and fence.ErrNoToken for the token 0. A write without an answer may be executed later,
// but not after a write with a higher token.
func (g *Guard) Set(ctx context.Context, key string, token uint64, value string) error {
	return g.write(ctx, set, "set", key, token, value)
}

// Delete removes a value under the same condition as Set. The token stays, so that a
// stale holder cannot write the value again.
func (g *Guard) Delete(ctx context.Context, key string, token uint64) error {
	return g.write(ctx, remove, "delete", key, token)
}

func (g *Guard) write(ctx context.Context, s *redis.Script, verb, key string, token uint64, args ...any) error {
	if token == 0 {
		return fence.ErrNoToken
	}
	if err := g.checkUsable(ctx); err != nil {
		return fmt.Errorf("redisguard: %s %q: %w", verb, key, err)
	}
	args = append([]any{strconv.FormatUint(token, 10)}, args...)
	seen, err := s.Run(ctx, g.rdb, []string{key}, args...).Uint64()
	switch {
	case errors.Is(err, redis.Nil):
		return nil
	case err != nil:
		return fmt.Errorf("redisguard: %s %q: %w", verb, key, err)
	}
	return &fence.StaleError{Resource: key, Token: token, Highest: seen}
}

// Get returns a value and the highest token that its key has seen, or 0 if there is none.
// The result found is false if there is no value.
func (g *Guard) Get(ctx context.Context, key string) (value string, token uint64, found bool, err error) {
	if err := g.checkUsable(ctx); err != nil {
		return "", 0, false, fmt.Errorf("redisguard: get %q: %w", key, err)
	}
	fields, err := g.rdb.HMGet(ctx, key, "token", "value").Result()
	if err != nil {
		return "", 0, false, fmt.Errorf("redisguard: get %q: %w", key, err)
	}
	text, _ := fields[0].(string)
	token, _ = strconv.ParseUint(text, 10, 64)
	value, found = fields[1].(string)
	return value, token, found, nil
}
