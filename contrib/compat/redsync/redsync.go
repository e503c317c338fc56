// Redsync and the options of a mutex.

package redsync

import (
	"crypto/rand"
	"encoding/base64"
	mathrand "math/rand/v2"
	"time"

	"github.com/leasewheel/leasewheel/contrib/compat/redsync/redis"
)

// Defaults of a Mutex.
const (
	defaultExpiry        = 8 * time.Second
	defaultTries         = 32
	defaultDriftFactor   = 0.01
	defaultTimeoutFactor = 0.05

	minDelay = 50 * time.Millisecond
	maxDelay = 250 * time.Millisecond
)

// Redsync makes mutexes on one server, or on several independent ones of which a majority
// decides. It is safe for concurrent use, and there is nothing to close but the clients.
type Redsync struct {
	pools []redis.Pool
}

// New returns a Redsync for the servers of the given pools. It does no IO. Without pools every
// Lock fails.
func New(pools ...redis.Pool) *Redsync { return &Redsync{pools} }

// NewMutex returns a mutex whose key in Redis is name. It does no IO. Mutexes of the same name
// exclude each other, in one process and in several.
func (r *Redsync) NewMutex(name string, options ...Option) *Mutex {
	m := &Mutex{
		name:          name,
		expiry:        defaultExpiry,
		tries:         defaultTries,
		driftFactor:   defaultDriftFactor,
		timeoutFactor: defaultTimeoutFactor,
		pools:         r.pools,
		order:         make([]int, len(r.pools)),
		queues:        make([]queue, len(r.pools)),
	}
	for i := range r.pools {
		m.order[i] = i
	}
	for _, o := range options {
		o.Apply(m)
	}
	if m.shuffle {
		mathrand.Shuffle(len(m.order), func(i, j int) { m.order[i], m.order[j] = m.order[j], m.order[i] })
	}
	return m
}

// An Option is a setting of a new Mutex.
type Option interface {
	// Apply is called by NewMutex.
	Apply(*Mutex)
}

// OptionFunc is an Option that is a function.
type OptionFunc func(*Mutex)

// Apply calls f.
func (f OptionFunc) Apply(mutex *Mutex) { f(mutex) }

// A DelayFunc returns the time before the next try of Lock, after the given number of tries.
type DelayFunc func(tries int) time.Duration

// WithExpiry sets the time after which the lock expires unless it is extended. The default is 8 s.
// Lock and Extend refuse less than a millisecond.
func WithExpiry(expiry time.Duration) Option {
	return OptionFunc(func(m *Mutex) { m.expiry = expiry })
}

// WithTries sets how often Lock tries. The default is 32. With 0 or less it fails at once.
func WithTries(tries int) Option {
	return OptionFunc(func(m *Mutex) { m.tries = tries })
}

// WithRetryDelay sets the time between two tries of Lock. The default is random, from 50 to
// 250 ms.
func WithRetryDelay(delay time.Duration) Option {
	return WithRetryDelayFunc(func(int) time.Duration { return delay })
}

// WithRetryDelayFunc sets a function that returns the time before each further try of Lock. Nil
// means the default of WithRetryDelay.
func WithRetryDelayFunc(delayFunc DelayFunc) Option {
	return OptionFunc(func(m *Mutex) { m.delay = delayFunc })
}

// WithSetNXOnExtend makes Extend set the key again on servers that no longer have it, as after a
// restart without data. It weakens the lock: if the lock has expired, Extend takes it again, although
// another process may have held it meanwhile.
func WithSetNXOnExtend() Option {
	return OptionFunc(func(m *Mutex) { m.setNXOnExtend = true })
}

// WithDriftFactor sets the share of the expiry that Until leaves out, because clocks run at different
// rates. The default is 0.01, which is 1 %.
func WithDriftFactor(factor float64) Option {
	return OptionFunc(func(m *Mutex) { m.driftFactor = factor })
}

// WithTimeoutFactor sets the share of the expiry for which a try of Lock waits for the servers.
// The default is 0.05, which is 400 ms of the default expiry. Unlock and Extend wait as long for the remaining servers after a majority
// has answered.
func WithTimeoutFactor(factor float64) Option {
	return OptionFunc(func(m *Mutex) { m.timeoutFactor = factor })
}

// WithGenValueFunc sets a function that returns the value of the key for each Lock. Values must
// be unique: two mutexes with the same value release and extend each other's lock. A program with a
// stable value, such as the name of its host, is locked out by its own crash until the key expires: to
// get its lock back at once, it gives that value to WithValue and calls Extend, with
// WithSetNXOnExtend if the key may be gone, before it calls Lock. The error of
// the function is that of Lock. The default is 16 random bytes in base64.
func WithGenValueFunc(genValueFunc func() (string, error)) Option {
	return OptionFunc(func(m *Mutex) { m.genValue = genValueFunc })
}

// WithValue sets the value of a lock that another mutex has acquired, perhaps in another process.
// Unlock, Extend and Valid then work on that lock. Lock uses a new value.
func WithValue(v string) Option {
	return OptionFunc(func(m *Mutex) { m.value = v })
}

// WithFailFast makes calls return as soon as a majority has answered, instead of waiting for all
// servers. The requests to the others go on in the background.
func WithFailFast(b bool) Option {
	return OptionFunc(func(m *Mutex) { m.failFast = b })
}

// WithShufflePools makes the mutex send its requests to the servers in a random order, which is
// drawn once. Node indices in errors still are those of the arguments of New.
func WithShufflePools(b bool) Option {
	return OptionFunc(func(m *Mutex) { m.shuffle = b })
}

// randomDelay is the default DelayFunc.
func randomDelay(int) time.Duration { return minDelay + mathrand.N(maxDelay-minDelay) }

// randomValue is the default generator of values.
func randomValue() (string, error) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.StdEncoding.EncodeToString(b[:]), nil
}
