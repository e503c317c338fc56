package redislock

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock"
)

// Errors of locks. Each also matches an error of package lock, so that code can check both kinds
// of locks in one way.
var (
	// ErrNotObtained is returned by Obtain if the lock is taken, and by Refresh if the lock has
	// expired or another holder has it. It matches lock.ErrNotAcquired.
	ErrNotObtained error = matching{"redislock: not obtained", lock.ErrNotAcquired}

	// ErrLockNotHeld is returned by Release if the lock has expired or another holder has it. It
	// matches lock.ErrNotHeld.
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

// Options of Obtain. A nil *Options means the defaults.
type Options struct {
	// RetryStrategy says whether Obtain tries again if the lock is taken. The default is NoRetry.
	RetryStrategy RetryStrategy

	// Metadata is kept in the value of the key, after the token.
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

// Obtain acquires the lock with the given key, which expires after ttl. It returns ErrNotObtained
// if the lock is taken and there is no further try, the error of ctx if ctx ends first, and the error
// of go-redis if a try fails. It refuses a ttl of less than a millisecond.
//
// If ctx has no deadline, Obtain tries for one ttl at most. It returns soon after the end of ctx.
// A lock that the server grants later is released in the background, unless Options.Token is set.
func (c *Client) Obtain(ctx context.Context, key string, ttl time.Duration, opt *Options) (*Lock, error) {
	if opt == nil {
		opt = &Options{}
	}
	if err := cmp.Or(c.checkContext(ctx, key), c.checkTTL(key, ttl)); err != nil {
		return nil, err
	}
	token := opt.Token
	if token == "" {
		token = randomToken()
	}
	retry := opt.RetryStrategy
	if retry == nil {
		retry = NoRetry()
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, ttl)
		defer cancel()
	}
	l := &Lock{Client: c, key: key, value: token + opt.Metadata, tokenLen: len(token)}
	for {
		err := l.obtain(ctx, ttl, opt.Token == "")
		switch {
		case err == nil:
			return l, nil
		case !errors.Is(err, redis.Nil):
			return nil, err
		}
		backoff := retry.NextBackoff()
		if backoff < 1 {
			return nil, ErrNotObtained
		}
		if err := basic.Sleep(ctx, backoff); err != nil {
			return nil, err
		}
	}
}

// checkContext returns what prevents any call.
func (c *Client) checkContext(ctx context.Context, key string) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("redislock: lock %s: the context is nil", basic.Quote(key))
	case c == nil || basic.IsNil(c.redis):
		return fmt.Errorf("redislock: lock %s: the client of go-redis is nil", basic.Quote(key))
	}
	return nil
}

// checkTTL returns what is wrong with a TTL.
func (*Client) checkTTL(key string, ttl time.Duration) error {
	if ttl < time.Millisecond {
		return fmt.Errorf("redislock: lock %s: %w: %v is below 1ms", basic.Quote(key), lock.ErrBadTTL, ttl)
	}
	return nil
}

func randomToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// milliseconds returns a TTL as an argument of a script.
func milliseconds(ttl time.Duration) string { return strconv.FormatInt(ttl.Milliseconds(), 10) }
