package redisstore

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

// wired returns a store whose server sends the same reply to all scripts.
func wired(t testing.TB, answer string) (*Store, *testredis.Wire) {
	w := &testredis.Wire{Answer: func([]string) string { return answer }}
	return newStore(t, w.Client(t, redis.Options{}), &Options{Timeout: time.Second}), w
}

func TestAnErrorReplyLeavesTheOutcomeUnknown(t *testing.T) {
	for _, refusal := range []string{
		"LOADING Redis is loading the dataset in memory",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"READONLY You can't write against a read only replica.",
		"MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381", "CLUSTERDOWN The cluster is down", "TRYAGAIN Multiple keys request during rehashing of slot",
		"CROSSSLOT Keys in request don't hash to the same slot", "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"MISCONF Redis is configured to save RDB snapshots", "NOREPLICAS Not enough good replicas to write.", "NOPERM this user has no permissions",
		"NOAUTH Authentication required.", "WRONGPASS invalid username-password pair", "ERR max number of clients reached", "UNKILLABLE x", "ERR", "",
	} {
		t.Run(strings.SplitN(refusal, " ", 2)[0], func(t *testing.T) {
			s, w := wired(t, "-"+refusal+"\r\n")
			l := driver.Lease{Request: request("k"), Token: 17}
			err := unknown(t.Context(), t, s, l)
			require.ErrorContains(t, err, strings.TrimSuffix(refusal, "."))
			_, err = s.Acquire(t.Context(), l.Request)
			require.ErrorContains(t, err, strings.TrimSuffix(refusal, "."))
			require.NotErrorIs(t, err, driver.ErrNotAcquired)
			err = s.Release(t.Context(), l)
			require.ErrorContains(t, err, strings.TrimSuffix(refusal, "."))
			require.NotErrorIs(t, err, driver.ErrNotHeld)
			assert.EqualValues(t, 3, w.Evals.Load(), "no request is sent twice")
		})
	}
}

func TestInvalidRepliesAreErrors(t *testing.T) {
	t.Parallel()
	for _, garbage := range []string{
		"+OK\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", "$2\r\n17\r\n", ":7\r\n", ":-1\r\n", ":99999999999999999999\r\n", "*1\r\n:1\r\n", "*1\r\n$1\r\n1\r\n",
		"*2\r\n:1\r\n:17\r\n", "*2\r\n:1\r\n$-1\r\n", "*2\r\n:1\r\n$20\r\n18446744073709551615\r\n", "*2\r\n+1\r\n$2\r\n17\r\n", "*2\r\n:2\r\n$2\r\n17\r\n",
		"*1\r\n-ERR inside\r\n", "*2\r\n:1\r\n-ERR inside\r\n", "#t\r\n", ",1.5\r\n", "%1\r\n:1\r\n:1\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "\r\n", "\x00\xff\r\n",
		"*2\r\n:1", // incomplete
	} {
		for _, closes := range []bool{false, true} {
			w := &testredis.Wire{}
			w.Answer = func([]string) string { return garbage }
			if closes {
				w.Answer = func([]string) string { return "" }
			}
			s := newStore(t, w.Client(t, redis.Options{}), &Options{Timeout: 200 * time.Millisecond})
			l := driver.Lease{Request: request("k"), Token: 17}
			got, err := s.Acquire(t.Context(), l.Request)
			require.Error(t, err, "%q", garbage)
			require.NotErrorIs(t, err, driver.ErrNotAcquired, "%q", garbage)
			assert.Zero(t, got)
			if garbage != ":1\r\n" {
				require.Error(t, s.Release(t.Context(), l), "%q", garbage)
			}
			if garbage == "*1\r\n:1\r\n" && !closes { // a valid reply to a renewal
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			unknown(ctx, t, s, l)
			cancel()
		}
	}
}

func TestALostReplyCausesNoRetry(t *testing.T) {
	w := &testredis.Wire{Answer: func([]string) string { return "" }}
	s := newStore(t, w.Client(t, redis.Options{MaxRetries: 5}), nil)
	_, err := s.Acquire(t.Context(), request("k"))
	require.Error(t, err)
	assert.EqualValues(t, 1, w.Evals.Load(), "the retries of the user's client have no effect")
	unknown(t.Context(), t, s, driver.Lease{Request: request("k"), Token: 17})
	assert.EqualValues(t, 2, w.Evals.Load())
}

func TestOnlyTheFailedScriptIsUnknown(t *testing.T) {
	var n atomic.Int64
	w := &testredis.Wire{Answer: func([]string) string {
		if n.Add(1) == 2 {
			return "-ERR of the second\r\n"
		}
		return "*1\r\n:3\r\n"
	}}
	s := newStore(t, w.Client(t, redis.Options{}), nil)
	batch := make([]driver.Lease, 3*rediskit.LeasesPerScript)
	want := make([]renewal.Outcome, len(batch))
	for i := range batch {
		batch[i] = driver.Lease{Request: request("k"), Token: 17}
		switch {
		case i/rediskit.LeasesPerScript == 1:
			want[i] = renewal.Unknown
		case i%rediskit.LeasesPerScript == 2:
			want[i] = renewal.LostMissing
		default:
			want[i] = renewal.Renewed
		}
	}
	out := make([]renewal.Outcome, len(batch))
	err := s.Renew(t.Context(), batch, out)
	require.ErrorContains(t, err, "25 of 75")
	require.ErrorContains(t, err, "of the second")
	assert.Equal(t, want, out)
}

func TestAScriptIsSentTwiceAtMost(t *testing.T) {
	s, w := wired(t, "-NOSCRIPT No matching script. Please use EVAL.\r\n")
	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, "NOSCRIPT")
	assert.EqualValues(t, 2, w.Evals.Load(), "once by digest and once in full")
	require.ErrorContains(t, unknown(t.Context(), t, s, driver.Lease{Request: request("k"), Token: 17}), "NOSCRIPT")
	assert.EqualValues(t, 4, w.Evals.Load())
}

func TestErrorsHideSecretsThatTheServerRepeats(t *testing.T) {
	const password = "sesame-canary"
	for _, words := range []string{"unknown command 'EVALSHA', with args beginning with: ", "wrong: ", "Error running script: "} {
		w := &testredis.Wire{Answer: func(command []string) string {
			return "-ERR " + words + strings.Join(command, " ") + "\r\n"
		}}
		// The server does not know HELLO, so go-redis sends the password with AUTH.
		s := newStore(t, w.Client(t, redis.Options{Username: "u", Password: password}), nil)
		r := request("k")
		_, err := s.Acquire(t.Context(), r)
		secretless(t, err, r.Owner, password)
		secretless(t, unknown(t.Context(), t, s, driver.Lease{Request: r, Token: 17}), r.Owner, password)

		w.Answer = func(command []string) string {
			if command[0] == "auth" {
				return "+OK\r\n"
			}
			return "-ERR " + words + strings.Join(command, " ") + "\r\n"
		}
		_, err = s.Acquire(t.Context(), r)
		secretless(t, err, r.Owner, password)
		secretless(t, s.Release(t.Context(), driver.Lease{Request: r}), r.Owner, password)
		secretless(t, unknown(t.Context(), t, s, driver.Lease{Request: r, Token: 17}), r.Owner, password)
	}
}

func TestErrorsHideThePasswordOfACredentialsProvider(t *testing.T) {
	const password = "sesame-canary"
	w := &testredis.Wire{Answer: func(command []string) string {
		return "-ERR unknown command '" + command[0] + "', with args beginning with: '" + strings.Join(command[1:], "' '") + "'\r\n"
	}}
	s := newStore(t, w.Client(t, redis.Options{CredentialsProvider: func() (string, string) { return "u", password }}), nil)
	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, "unknown command 'auth'")
	secretless(t, err, password)
	secretless(t, unknown(t.Context(), t, s, driver.Lease{Request: request("k"), Token: 17}), password)
}

func TestErrorsHideTheUser(t *testing.T) {
	w := &testredis.Wire{Answer: func(command []string) string {
		if command[0] == "auth" {
			return "+OK\r\n"
		}
		return "-NOPERM User canary has no permissions to run the 'evalsha' command\r\n"
	}}
	s := newStore(t, w.Client(t, redis.Options{Username: "canary", Password: "sesame"}), nil)
	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, "NOPERM User (secret) has no permissions")
	secretless(t, err, "canary")
	secretless(t, unknown(t.Context(), t, s, driver.Lease{Request: request("k"), Token: 17}), "canary")
}
