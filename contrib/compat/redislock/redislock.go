// The client, Obtain and ObtainMulti.

package redislock

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock"
)

// Errors of locks. Each also matches an error of package lock, so that code can check both kinds
// of locks in one way.
var (
	// ErrNotObtained is returned by Obtain and ObtainMulti if the lock is taken, and by Refresh if the
	// lock has expired, another holder has it, or it is nil. It matches lock.ErrNotAcquired.
	ErrNotObtained error = matching{"redislock: not obtained", lock.ErrNotAcquired}

	// ErrLockNotHeld is returned by Release if the lock has expired or another holder has it, and by
	// Release and TTL of a nil Lock. It matches lock.ErrNotHeld.
	ErrLockNotHeld error = matching{"redislock: lock not held", lock.ErrNotHeld}
)

// matching is an error that matches an error of package lock.
type matching struct {
	text string
	as   error
}

func (e matching) Error() string { return e.text }

// Is implements the interface of errors.Is.
func (e matching) Is(target error) bool { return target == e.as }

// RedisClient is what a Client needs of a client of go-redis. It must be safe for concurrent use.
type RedisClient interface {
	redis.Scripter
}

// Options of Obtain, ObtainMulti and Refresh. A nil *Options means the defaults. Refresh uses the
// RetryStrategy only.
type Options struct {
	// RetryStrategy says whether Obtain tries again if the lock is taken, and whether Refresh tries
	// again after an error. The default is NoRetry.
	RetryStrategy RetryStrategy

	// Metadata is kept in the value of each key, after the token.
	Metadata string

	// Token identifies the holder. Whoever knows the token of a lock can obtain it again. No token
	// may begin with another one, because the server does not know where a token ends. The default
	// is 16 random bytes in base64.
	Token string
}

// Client obtains locks. It is safe for concurrent use, and there is nothing to close but the
// client of go-redis.
type Client struct {
	redis RedisClient
}

// New returns a Client. It does no IO. With a nil client every call fails.
func New(client RedisClient) *Client { return &Client{client} }

// Obtain calls [Client.Obtain] of a new Client.
func Obtain(ctx context.Context, client RedisClient, key string, ttl time.Duration, opt *Options) (*Lock, error) {
	return New(client).Obtain(ctx, key, ttl, opt)
}

// ObtainMulti calls [Client.ObtainMulti] of a new Client.
func ObtainMulti(ctx context.Context, client RedisClient, keys []string, ttl time.Duration, opt *Options) (*Lock, error) {
	return New(client).ObtainMulti(ctx, keys, ttl, opt)
}

// Obtain calls [Client.ObtainMulti] with one key.
func (c *Client) Obtain(ctx context.Context, key string, ttl time.Duration, opt *Options) (*Lock, error) {
	return c.ObtainMulti(ctx, []string{key}, ttl, opt)
}

// ObtainMulti acquires one lock of all given keys, or of none. The keys expire after ttl. In a
// cluster, and on a Ring of go-redis, the keys must have one hash tag.
//
// ObtainMulti returns ErrNotObtained if a key is taken and there is no further try, and the error of
// go-redis if a try fails. If ctx ends, the error is that of ctx, joined with ErrNotObtained if a
// try has found a key taken. ObtainMulti refuses a ttl of less than a millisecond.
//
// If ctx has no deadline, ObtainMulti tries for one ttl at most. It returns soon after the end of
// ctx. A lock that the server grants later is released in the background, unless Options.Token is
// set.
func (c *Client) ObtainMulti(ctx context.Context, keys []string, ttl time.Duration, opt *Options) (*Lock, error) {
	if opt == nil {
		opt = &Options{}
	}
	if err := cmp.Or(c.checkContext(ctx, keys), checkTTL(keys, ttl)); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, errors.New("redislock: obtain: no keys")
	}
	token := cmp.Or(opt.Token, randomToken())
	l := &Lock{Client: c, keys: slices.Clone(keys), value: token + opt.Metadata, tokenLen: len(token)}
	err := withRetry(ctx, ttl, opt, func(ctx context.Context) (again bool, err error) {
		err = l.obtain(ctx, ttl, opt.Token == "")
		if errors.Is(err, redis.Nil) {
			return true, ErrNotObtained
		}
		return false, err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// checkContext returns what prevents any call.
func (c *Client) checkContext(ctx context.Context, keys []string) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("redislock: lock %s: the context is nil", quote(keys))
	case c == nil || basic.IsNil(c.redis):
		return fmt.Errorf("redislock: lock %s: the client of go-redis is nil", quote(keys))
	}
	return nil
}

// checkTTL returns what is wrong with a TTL.
func checkTTL(keys []string, ttl time.Duration) error {
	if ttl < time.Millisecond {
		return fmt.Errorf("redislock: lock %s: %w: %v is below 1ms", quote(keys), lock.ErrBadTTL, ttl)
	}
	return nil
}

// quote names a lock in an error by its first key.
func quote(keys []string) string {
	switch len(keys) {
	case 0:
		return `""`
	case 1:
		return basic.Quote(keys[0])
	}
	return fmt.Sprintf("%s and %d more", basic.Quote(keys[0]), len(keys)-1)
}

func randomToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// milliseconds returns a TTL as an argument of a script.
func milliseconds(ttl time.Duration) string { return strconv.FormatInt(ttl.Milliseconds(), 10) }
