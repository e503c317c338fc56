// Package redisguard keeps values in Redis that only the latest holder of a lock can
// write: each is stored with the fencing token by which it was written, and a write
// with a lower one is refused, by the script that writes.
//
// A value is a hash with the fields "token" and "value". It has no end of its own.
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

// A value is a hash of two fields, so that it and its token cannot part. Tokens are
// compared as text, by length first: Lua's numbers are exact to 53 bits only.
//
// Fails with WRONGTYPE, and writes nothing, if the key holds something else; by pcall,
// for before Redis 7 what call raises has another text around it. Returns the higher
// token that was there, or nil.
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

// Guard writes and reads such values. Make it with New: the methods of the zero Guard
// return an error. They are safe for concurrent use. Their errors name the key and wrap
// those of go-redis, such as the server's WRONGTYPE if something else lies there, which
// is left as it is. A nil ctx is an error.
type Guard struct {
	rdb redis.UniversalClient
}

// New returns a Guard on a server or cluster, whose client stays the caller's. It does
// no IO, and panics if the client is nil, or a nil pointer.
func New(rdb redis.UniversalClient) *Guard {
	if v := reflect.ValueOf(rdb); rdb == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		panic("redisguard: New of a nil client")
	}
	return &Guard{rdb}
}

// unfit returns why nothing can be asked of the server, if nothing can.
func (g *Guard) unfit(ctx context.Context) error {
	switch {
	case g.rdb == nil:
		return errors.New("the Guard was not made by New")
	case ctx == nil:
		return errors.New("the context is nil")
	}
	return nil
}

// Set writes a value, unless the key has seen a higher token: then it returns a
// *fence.StaleError. The token 0 is fence.ErrNoToken. A write that got no answer may
// be executed later, but not after one with a higher token.
func (g *Guard) Set(ctx context.Context, key string, token uint64, value string) error {
	return g.write(ctx, set, "set", key, token, value)
}

// Delete removes a value, under the same condition. The token stays: or else a stale
// holder could bring the value back.
func (g *Guard) Delete(ctx context.Context, key string, token uint64) error {
	return g.write(ctx, remove, "delete", key, token)
}

func (g *Guard) write(ctx context.Context, s *redis.Script, verb, key string, token uint64, args ...any) error {
	if token == 0 {
		return fence.ErrNoToken
	}
	if err := g.unfit(ctx); err != nil {
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

// Get returns a value and the highest token that its key has seen, 0 if it has seen
// none; found is false if there is no value.
func (g *Guard) Get(ctx context.Context, key string) (value string, token uint64, found bool, err error) {
	if err := g.unfit(ctx); err != nil {
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
